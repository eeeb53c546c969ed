// One table: its cells as they come, and its Markdown at the end.

/** How many columns one cell may take. */
const SPAN_MAX = 20;

export class Table {
  constructor() {
    this.rows = [];
    this.isHead = false;
    /** Captions, and blocks that stand between the rows. */
    this.loose = [];
  }

  row() {
    this.rows.push({ cells: [], isHead: this.isHead });
  }

  section(name) {
    this.isHead = name === 'thead';
  }

  /** Takes a cell whose content is complete. */
  cell({ name, blocks, span, align }) {
    const text = blocks.map((block) => block.text).join('\n\n');
    if (name === 'caption') {
      if (text !== '') this.loose.push(text);
      return;
    }
    if (this.rows.length === 0) this.row();
    const row = this.rows.at(-1);
    row.cells.push({ text, align, isHead: name === 'th' });
    const wide = Math.min(Number.parseInt(span ?? '1', 10) || 1, SPAN_MAX);
    for (let count = 1; count < wide; count++) row.cells.push({ text: '', align: '', isHead: name === 'th' });
  }

  /** The table as blocks of Markdown. */
  blocks() {
    const rows = this.rows.filter(({ cells }) => cells.some(({ text }) => text !== ''));
    const columns = rows.reduce((most, { cells }) => Math.max(most, cells.length), 0);
    // A table of one column, or of one row without a head, is there for its looks.
    const isLayout = columns <= 1 || (rows.length === 1 && !rows[0].isHead && !rows[0].cells.some(({ isHead }) => isHead));
    if (isLayout) return [...this.loose, ...rows.flatMap(({ cells }) => cells.map(({ text }) => text)).filter((text) => text !== '')];
    const hasHead = rows[0].isHead || rows[0].cells.every(({ isHead }) => isHead);
    const head = hasHead ? rows[0].cells : [];
    const at = (cells, index) => cells[index] ?? { text: '', align: '' };
    const indexes = Array.from({ length: columns }, (_, index) => index);
    const aligned = hasHead ? head : rows[0].cells;
    const lines = [
      line(indexes.map((index) => at(head, index).text)),
      line(indexes.map((index) => RULES[at(aligned, index).align] ?? '---'), true),
      ...rows.slice(hasHead ? 1 : 0).map(({ cells }) => line(cells.map(({ text }) => text))),
    ];
    return [...this.loose, lines.join('\n')];
  }
}

const RULES = { left: ':---', right: '---:', center: ':---:' };

function line(cells, isRule = false) {
  const flat = (text) => text.replace(/\s*\n\s*/g, '<br>').replaceAll('|', '\\|');
  return `| ${cells.map((text) => (isRule ? text : flat(text))).join(' | ')} |`;
}
