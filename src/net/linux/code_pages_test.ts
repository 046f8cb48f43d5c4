import assert from "node:assert/strict";
import { readFileSync, readlinkSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { codeMappings, releaseCodePages } from "./code_pages.ts";

const EXE = "/usr/bin/postern";

function mapping(head: string, changedKb = 0): string {
  return `${head}\nRss:               34000 kB\nPrivate_Dirty:         8 kB\nAnonymous:             ${changedKb} kB\nVmFlags: rd ex\n`;
}

const CODE = `01a40000-0684a000 r-xp 01838000 fe:00 5317258                    ${EXE}`;
const CONSTANTS = `00200000-01a39000 r--p 00000000 fe:00 5317258                    ${EXE}`;
const DATA = `06867000-06bba000 rw-p 0665e000 fe:00 5317258                    ${EXE}`;
const LIBRARY = "7f0000000000-7f0000010000 r-xp 00000000 fe:00 77        /lib/libc.so.6";
const code = { start: 0x1a40000, length: 0x684a000 - 0x1a40000 };
const constants = { start: 0x200000, length: 0x1a39000 - 0x200000 };

for (
  const [name, smaps, want] of [
    [
      "finds code and constants of the executable",
      [mapping(CONSTANTS), mapping(CODE), mapping(DATA), mapping(LIBRARY)],
      [constants, code],
    ],
    ["skips pages changed in memory", [mapping(CONSTANTS, 4), mapping(CODE)], [code]],
    ["finds no code of another file", [mapping(LIBRARY)], []],
    ["finds nothing in invalid text", ["x\n-\n"], []],
  ] as const
) {
  test(`codeMappings() ${name}`, () => assert.deepEqual(codeMappings(smaps.join(""), EXE), want));
}

function released(): void {
  const smaps = () => readFileSync("/proc/self/smaps", "utf8");
  const code = codeMappings(smaps(), readlinkSync("/proc/self/exe")).at(-1);
  assert.ok(code);
  const residentKb = () => {
    const mapping = smaps().split(`${code.start.toString(16).padStart(8, "0")}-`)[1];
    return Number(/^Rss:\s+(\d+)/m.exec(mapping ?? "")?.[1]);
  };
  const before = residentKb();
  assert.ok(releaseCodePages());
  const after = residentKb();
  assert.ok(after < before, `${before} KB of code, then ${after} KB`);
  assert.equal([3, 1, 2].sort().join(), "1,2,3");
}

// Elsewhere it does nothing.
if (process.platform === "linux" && "bun" in process.versions) {
  test("releaseCodePages() makes the resident code smaller, and the process goes on", released);
} else {
  test("releaseCodePages() does nothing here", () => assert.equal(releaseCodePages(), false));
}
