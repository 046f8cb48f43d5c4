/**
 * The page "Write your first plugin", walked from an empty directory: its commands are run, its files
 * written, and their output is the page's. And the plugin of the README, which is one.
 *
 * @module
 */

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, Process } from "../process/process.ts";

const PAGE = new URL("../../../docs/write-a-plugin.md", import.meta.url);
const README = new URL("../../../README.md", import.meta.url);
const IN_TIME = { timeoutMs: 60_000 };
const BLOCKS = /(?:<!-- (file|change): (\S+) -->\n+)?^```(\w+)\n(.*?)^```$/gms;

/** `command`: what starts the program, without its own arguments. */
export async function walkFirstPlugin(command: readonly string[]): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), "postern-walk-"));
  const directory = join(home, "tenants");
  const [program = "", ...words] = command;
  const start = (line: string, cwd: string) => {
    const argv = line.split(" ").slice(1).map((word) => word.replace(/^'(.*)'$/, "$1"));
    return new Process(program, [...words, ...argv], { cwd, name: line });
  };
  const blocks = [...(await readFile(PAGE, "utf8")).matchAll(BLOCKS)];
  let output = "";
  let ran = 0;
  try {
    for (const [index, [, what, file = "", kind, text = ""]] of blocks.entries()) {
      const path = join(directory, file);
      if (what === "file") await writeFile(path, text);
      else if (what === "change") {
        // The line that begins as the new one does.
        const begin = text.slice(0, text.indexOf("="));
        const lines = (await readFile(path, "utf8")).split("\n");
        const at = lines.findIndex((line) => line.trimStart().startsWith(begin));
        assert.ok(at >= 0, `no line of ${file} begins as ${text}`);
        lines[at] = text.trim();
        await writeFile(path, lines.join("\n"));
      } else if (kind === "sh") {
        ran++;
        const line = text.trim();
        if (line.startsWith("postern plugin dev")) {
          await using dev = start(line, directory);
          await seeAtWork(dev, blocks[index + 1]?.[4] ?? "");
          continue;
        }
        await using run = start(line, line.startsWith("postern plugin new") ? home : directory);
        await run.waitExit(IN_TIME);
        output = run.output;
      } else if (kind === "text" && output !== "") {
        assert.equal(plain(output), plain(text));
        output = "";
      }
    }
    const [, shown = ""] = /^```ts\n(.*?)^```$/ms.exec(await readFile(README, "utf8")) ?? [];
    await writeFile(join(directory, "tenants.ts"), shown);
    await using check = start("postern plugin check tenants.ts", directory);
    assert.equal((await check.waitExit(IN_TIME)).code, 0, check.output);
  } finally {
    await rm(home, { recursive: true, force: true });
  }
  assert.equal(ran, 7);
}

/** Sends the page's request, and checks the page's answer. */
async function seeAtWork(dev: Process, shown: string): Promise<void> {
  const [, url = ""] = await dev.waitFor(/curl -i (\S+)/, IN_TIME);
  for (const headers of [{}, { authorization: "Tenant blue" }]) {
    await (await fetch(url, { headers })).text();
  }
  await eventually("it is shown", () => Promise.resolve(plain(dev.output).includes(plain(shown))));
  dev.kill("SIGINT");
  assert.equal((await dev.waitExit(IN_TIME)).code, 0);
}

/** Without parts that differ from run to run; engines differ in the columns of thrown errors. */
function plain(text: string): string {
  return text.replaceAll(/\d+ ms/g, "N ms").replaceAll(/^( +at \S+:\d+):\d+$/gm, "$1").replaceAll(
    /"[0-9a-f]{64}"/g,
    '"..."',
  ).trim();
}
