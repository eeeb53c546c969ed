// Character references: `&amp;`, `&#233;`, `&#xe9;`. Of the named ones those that people write.

const NAMES = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', shy: '', zwj: '\u200d', zwnj: '\u200c',
  ensp: '\u2002', emsp: '\u2003', thinsp: '\u2009', lrm: '', rlm: '',
  copy: '©', reg: '®', trade: '™', deg: '°', plusmn: '±', micro: 'µ', para: '¶', sect: '§', middot: '·',
  bull: '•', hellip: '…', ndash: '–', mdash: '—', lsquo: '‘', rsquo: '’', sbquo: '‚', ldquo: '“', rdquo: '”',
  bdquo: '„', laquo: '«', raquo: '»', lsaquo: '‹', rsaquo: '›', dagger: '†', Dagger: '‡', permil: '‰',
  prime: '′', Prime: '″', larr: '←', uarr: '↑', rarr: '→', darr: '↓', harr: '↔', lArr: '⇐', rArr: '⇒', hArr: '⇔',
  times: '×', divide: '÷', minus: '−', frac12: '½', frac14: '¼', frac34: '¾', sup1: '¹', sup2: '²', sup3: '³',
  ordf: 'ª', ordm: 'º', iexcl: '¡', iquest: '¿', cent: '¢', pound: '£', yen: '¥', euro: '€', curren: '¤',
  brvbar: '¦', uml: '¨', macr: '¯', acute: '´', cedil: '¸', not: '¬', circ: 'ˆ', tilde: '˜', fnof: 'ƒ',
  infin: '∞', asymp: '≈', ne: '≠', equiv: '≡', le: '≤', ge: '≥', sum: '∑', prod: '∏', radic: '√', int: '∫',
  part: '∂', nabla: '∇', isin: '∈', notin: '∉', ni: '∋', cap: '∩', cup: '∪', sub: '⊂', sup: '⊃', sube: '⊆',
  supe: '⊇', and: '∧', or: '∨', forall: '∀', exist: '∃', empty: '∅', ang: '∠', perp: '⊥', there4: '∴', sim: '∼',
  cong: '≅', prop: '∝', oplus: '⊕', otimes: '⊗', sdot: '⋅', lowast: '∗', hearts: '♥', spades: '♠', clubs: '♣',
  diams: '♦', loz: '◊', check: '✓', cross: '✗', star: '☆', starf: '★', num: '#', lpar: '(', rpar: ')', lsqb: '[',
  rsqb: ']', lbrack: '[', rbrack: ']', lcub: '{', rcub: '}', lbrace: '{', rbrace: '}', ast: '*', excl: '!',
  quest: '?', comma: ',', period: '.', colon: ':', semi: ';', sol: '/', bsol: '\\', lowbar: '_', grave: '`',
  vert: '|', verbar: '|', equals: '=', plus: '+', percnt: '%', dollar: '$', commat: '@', Hat: '^', Tab: '\t',
  NewLine: '\n', szlig: 'ß', aelig: 'æ', AElig: 'Æ', oelig: 'œ', OElig: 'Œ', aring: 'å', Aring: 'Å', oslash: 'ø',
  Oslash: 'Ø', eth: 'ð', ETH: 'Ð', thorn: 'þ', THORN: 'Þ', scaron: 'š', Scaron: 'Š', inodot: 'ı',
};

// Letters with a mark, each behind its letter: `&egrave;` is e with a grave.
const MARKED = {
  grave: 'aàeèiìoòuùyỳnǹAÀEÈIÌOÒUÙYỲNǸ',
  acute: 'aáeéiíoóuúyýnńcćsśzźrŕlĺgǵAÁEÉIÍOÓUÚYÝNŃCĆSŚZŹRŔLĹGǴ',
  circ: 'aâeêiîoôuûyŷcĉsŝzẑgĝAÂEÊIÎOÔUÛYŶCĈSŜZẐGĜ',
  tilde: 'aãeẽiĩoõuũyỹnñAÃEẼIĨOÕUŨYỸNÑ',
  uml: 'aäeëiïoöuüyÿtẗAÄEËIÏOÖUÜYŸ',
  cedil: 'eȩnņcçsşrŗtţdḑlļgģEȨNŅCÇSŞRŖTŢDḐLĻGĢ',
  caron: 'aǎeěiǐoǒuǔnňcčsšzžrřtťdďlľgǧAǍEĚIǏOǑUǓNŇCČSŠZŽRŘTŤDĎLĽGǦ',
};

const GREEK = 'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf sigma tau upsilon phi chi psi omega';

let known;

/** All names, when the first of them is looked for. */
function named(name) {
  known ??= new Map([...Object.entries(NAMES), ...marked(), ...greek()]);
  return known.get(name);
}

function marked() {
  return Object.entries(MARKED).flatMap(([mark, letters]) => (letters.match(/../g) ?? []).map(([letter, one]) => [letter + mark, one]));
}

function greek() {
  return GREEK.split(' ').flatMap((name, index) => [
    [name, String.fromCodePoint(0x3b1 + index)],
    [name[0].toUpperCase() + name.slice(1), String.fromCodePoint(0x391 + index)],
  ]);
}

// What old pages mean by the numbers 128 to 159, which are no characters.
const WINDOWS = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';
// Some were written without the semicolon, as long as there has been HTML.
const REFERENCE = /&(?:#(?:[xX]([0-9a-fA-F]{1,8})|(\d{1,8}));?|([A-Za-z][A-Za-z0-9]{1,12});|(amp|lt|gt|quot|nbsp|copy|reg)(?![A-Za-z0-9=]))/g;

/** Replaces the references in a text by what they stand for; others stay as they are. */
export function decoded(text) {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (all, hex, decimal, name, bare) => {
    const word = name ?? bare;
    if (word !== undefined) return named(word) ?? all;
    return character(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });
}

function character(code) {
  if (code >= 128 && code < 160) return WINDOWS[code - 128];
  const isNone = code === 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000);
  return isNone ? '\ufffd' : String.fromCodePoint(code);
}
