// Puts kernels together from .wgsl files, by the rules of whet.gpu.assembler: //# import, if, each, let, and ${key}.

const DIRECTIVE = /^\s*\/\/#\s*(\w+)\s*(.*?)\s*$/;
const BINDING = /@group\(0\)\s*@binding\((\d+)\)\s*var\s*<[^>]*>\s*(\w+)/g;

/**
 * The file and all that it imports, with every choice made.
 * @param {Record<string, string>} files
 * @param {string} name
 * @param {Record<string, string | number>} given
 */
export function assemble(files, name, given) {
    const keys = new Map(Object.entries(given).map(([key, value]) => [key, String(value)]));
    /** @type {Set<string>} */
    const imported = new Set();
    /** @type {string[]} */
    const emitted = [];
    /** @param {string} key */
    const value = (key) => {
        const found = keys.get(key);
        if (found === undefined) throw new Error(`${name}.wgsl: nothing says what ${key} is`);
        return found;
    };
    /** @param {string} text */
    const filled = (text) => text.replace(/\$\{(\w+)\}/g, (_, key) => value(key));
    /** @param {string} file */
    const include = (file) => {
        if (imported.has(file)) return;
        imported.add(file);
        if (!(file in files)) throw new Error(`there is no ${file}.wgsl`);
        block(files[file].replace(/\n$/, "").split("\n"));
    };
    /** @param {string[]} lines */
    const block = (lines) => {
        for (let at = 0; at < lines.length; ) {
            const line = lines[at++];
            const found = DIRECTIVE.exec(line);
            if (!found) {
                emitted.push(filled(line));
                continue;
            }
            const [, kind, rest] = found;
            if (kind === "import") include(filled(rest));
            else if (kind === "let") {
                const [key, text] = halves(rest, " = ");
                keys.set(key, filled(text));
            } else if (kind === "if") {
                const { first, second, next } = branches(lines, at);
                at = next;
                const [key, wanted] = halves(rest, " == ");
                block(value(key) === wanted ? first : second);
            } else if (kind === "each") {
                const { first, next } = branches(lines, at);
                at = next;
                const [key, count] = halves(rest, " < ");
                const times = Number(value(count));
                for (let number = 0; number < times; number++) {
                    keys.set(key, String(number));
                    block(first);
                }
                keys.delete(key);
            } else throw new Error(`${name}.wgsl: no directive ${kind}`);
        }
    };
    include(name);
    return `${emitted.join("\n")}\n`;
}

/**
 * The names that a kernel binds in group 0, in order.
 * @param {string} source
 */
export function bindings(source) {
    const found = [...source.matchAll(BINDING)].map((one) => /** @type {[number, string]} */ ([Number(one[1]), one[2]]));
    return found.sort((a, b) => a[0] - b[0]).map(([, name]) => name);
}

/**
 * @param {string} text
 * @param {string} at
 */
function halves(text, at) {
    const place = text.indexOf(at);
    if (place < 0) throw new Error(`\`${text}\` is no directive`);
    return [text.slice(0, place), text.slice(place + at.length)];
}

/**
 * The lines before and after the `else` of the block that begins at `start`, and where it has ended.
 * @param {string[]} lines
 * @param {number} start
 */
function branches(lines, start) {
    let depth = 0;
    let middle = -1;
    for (let at = start; at < lines.length; at++) {
        const kind = DIRECTIVE.exec(lines[at])?.[1];
        if (kind === "if" || kind === "each") depth++;
        else if (kind === "else" && depth === 0 && middle < 0) middle = at;
        else if (kind === "end") {
            if (depth === 0) {
                const split = middle < 0 ? at : middle;
                return { first: lines.slice(start, split), second: lines.slice(split + 1, at), next: at + 1 };
            }
            depth--;
        }
    }
    throw new Error("a block has no end");
}
