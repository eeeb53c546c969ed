// The files of the author's machine that a test gives: directories in memory with the functions of
// `wasi:filesystem` that the SDK asks for.

const encoder = new TextEncoder();

/**
 * Returns the directories that hold these files, as pairs of directory and path: `/` for absolute
 * paths, `.` for others.
 *
 * @param given texts or bytes by their paths
 */
export function openFiles(given) {
  const trees = { '/': new Map(), '.': new Map() };
  for (const [path, content] of Object.entries(given)) {
    const below = path.replace(/^(?:\/|\.\/)*/, '');
    trees[path.startsWith('/') ? '/' : '.'].set(below, typeof content === 'string' ? encoder.encode(content) : content);
  }
  return Object.entries(trees).filter(([, tree]) => tree.size > 0).map(([at, tree]) => [new Opened(tree, ''), at]);
}

/** A file or a directory of a tree; the errors are codes of WASI. */
class Opened {
  constructor(tree, path) {
    Object.assign(this, { tree, path });
  }

  openAt(_flags, below, { create, truncate, directory }) {
    const path = below === '.' ? this.path : below;
    const isDirectory = path === '' || [...this.tree.keys()].some((name) => name.startsWith(`${path}/`));
    const isFile = this.tree.has(path);
    if ([...this.tree.keys()].some((name) => path.startsWith(`${name}/`))) throw 'not-directory';
    if (isDirectory && create) throw 'is-directory';
    if (isFile && directory) throw 'not-directory';
    if (!isDirectory && !isFile && !create) throw 'no-entry';
    if (create && path.includes('/') && ![...this.tree.keys()].some((name) => name.startsWith(path.replace(/[^/]*$/, '')))) throw 'no-entry';
    if (create && (truncate || !isFile)) this.tree.set(path, new Uint8Array());
    return new Opened(this.tree, path);
  }

  read(length, offset) {
    const bytes = this.tree.get(this.path);
    if (bytes === undefined) throw 'is-directory';
    const end = Number(offset) + Number(length);
    return [bytes.slice(Number(offset), end), end >= bytes.length];
  }

  write(part, offset) {
    const before = this.tree.get(this.path);
    const after = new Uint8Array(Math.max(before.length, Number(offset) + part.length));
    after.set(before);
    after.set(part, Number(offset));
    this.tree.set(this.path, after);
    return BigInt(part.length);
  }

  readDirectory() {
    const start = this.path === '' ? '' : `${this.path}/`;
    const found = new Map();
    for (const name of this.tree.keys()) {
      if (!name.startsWith(start)) continue;
      const [first, ...deeper] = name.slice(start.length).split('/');
      found.set(first, deeper.length > 0 ? 'directory' : 'regular-file');
    }
    const entries = [...found].map(([name, type]) => ({ name, type }));
    return { readDirectoryEntry: () => entries.shift() };
  }
}
