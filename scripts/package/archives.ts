/** Tar, ar and gzip archives whose bytes depend on their entries alone. @module */

import { gzipSync } from "node:zlib";

export type PackedEntry =
  | {
    readonly kind: "file";
    readonly path: string;
    readonly mode: number;
    readonly bytes: Uint8Array;
  }
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly to: string };

const BLOCK = 512;
const TYPES = { file: "0", directory: "5", link: "2" } as const;

/** POSIX ustar, sorted by path, owned by root. The directories above an entry are added. */
export function tar(entries: readonly PackedEntry[], timeSeconds: number): Uint8Array {
  const byPath = new Map<string, PackedEntry>();
  for (const entry of entries) {
    const parts = entry.path.split("/");
    for (let length = 1; length < parts.length; length++) {
      const path = parts.slice(0, length).join("/");
      if (!byPath.has(path)) byPath.set(path, { kind: "directory", path, mode: 0o755 });
    }
    byPath.set(entry.path, entry);
  }
  const sorted = [...byPath.values()].sort((a, b) => a.path < b.path ? -1 : 1);
  const blocks = sorted.flatMap((entry) => {
    const bytes = entry.kind === "file" ? entry.bytes : new Uint8Array();
    const fill = new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK);
    return [header(entry, bytes.length, timeSeconds), bytes, fill];
  });
  return Buffer.concat([...blocks, new Uint8Array(2 * BLOCK)]);
}

function header(entry: PackedEntry, size: number, timeSeconds: number): Uint8Array {
  const name = entry.kind === "directory" ? `${entry.path}/` : entry.path;
  if (name.length > 100) throw new Error(`Cannot pack ${name}: its path has more than 100 bytes`);
  const mode = entry.kind === "link" ? 0o777 : entry.mode;
  const fields: readonly (readonly [at: number, text: string])[] = [
    [0, name],
    [100, octal(mode, 7)],
    [108, octal(0, 7)],
    [116, octal(0, 7)],
    [124, octal(size, 11)],
    [136, octal(timeSeconds, 11)],
    [148, " ".repeat(8)],
    [156, TYPES[entry.kind]],
    [157, entry.kind === "link" ? entry.to : ""],
    [257, "ustar\0" + "00"],
    [265, "root"],
    [297, "root"],
  ];
  const block = Buffer.alloc(BLOCK);
  for (const [at, text] of fields) block.write(text, at, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${octal(sum, 6)}\0 `, 148, "latin1");
  return block;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, "0");
}

/** The archive of Debian packages. */
export function ar(
  members: readonly (readonly [name: string, bytes: Uint8Array])[],
  timeSeconds: number,
): Uint8Array {
  const parts = members.flatMap(([name, bytes]) => [
    Buffer.from(
      `${name.padEnd(16)}${String(timeSeconds).padEnd(12)}${"0".padEnd(6)}${"0".padEnd(6)}` +
        `${"100644".padEnd(8)}${String(bytes.length).padEnd(10)}\`\n`,
    ),
    bytes,
    ...bytes.length % 2 === 1 ? [Buffer.from("\n")] : [],
  ]);
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts]);
}

/** Without a time and a name in its header; the byte for the system is that of Unix everywhere. */
export function gzip(bytes: Uint8Array): Uint8Array {
  const packed = gzipSync(bytes, { level: 6 });
  packed[9] = 3;
  return packed;
}
