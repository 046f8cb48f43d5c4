import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { BUILT_IN_NAMES } from "../../../built_in/mod.ts";
import { CONTRACT_TEXT } from "../../../plugin/mod.ts";
import { parseCommand } from "../../command_line/args.ts";
import { listText } from "./run_plugin.ts";

test("listText() has a line for each plugin: name, phase and purpose, outermost first", async () => {
  const lines = (await listText()).trimEnd().split("\n");
  assert.equal(lines.length, BUILT_IN_NAMES.length);
  for (const line of lines) {
    assert.match(line, /^[a-z_]+ +(guard|route|filter|retry|attempt) +\S.*\S$/);
  }
  const phases = lines.map((line) => line.split(/ +/)[1]);
  assert.ok(phases.lastIndexOf("guard") < phases.indexOf("filter"), phases.join());
});

test("CONTRACT_TEXT joins the files of the contract, each with at most 350 lines", () => {
  for (const name of ["api.ts", "message_api.ts", "host_api.ts"]) {
    const text = readFileSync(new URL(`../../../plugin/${name}`, import.meta.url), "utf8");
    assert.ok(text.split("\n").length <= 350, name);
    for (const [line] of text.matchAll(/^export (?:interface|type) \w.*/gm)) {
      assert.ok(CONTRACT_TEXT.includes(line), line);
    }
  }
  assert.doesNotMatch(CONTRACT_TEXT, /^import | from "/m);
});

test("parseCommand() reads the tasks of `postern plugin`, and refuses others", () => {
  assert.deepEqual(parseCommand(["plugin", "list"], {}), {
    kind: "plugin",
    task: { kind: "list" },
  });
  const files = ["a.ts", "b"];
  const words = ["plugin", "test", ...files, "-only", "x", "-watch"];
  const task = { kind: "test", files, only: "x", watch: true };
  assert.deepEqual(parseCommand(words, {}), { kind: "plugin", task });
  const dev = { kind: "dev", file: "a.ts", config: { a: 1 } };
  assert.deepEqual(parseCommand(["plugin", "dev", "a.ts", "-config", '{"a":1}'], {}), {
    kind: "plugin",
    task: dev,
  });
  assert.throws(() => parseCommand(["plugin", "dev", "a.ts", "-config", "{"], {}), /is no JSON/);
  assert.throws(() => parseCommand(["plugin", "test", "a.ts", "-config", "{}"], {}), /-config/);
  const help = { kind: "help", topic: "plugin" };
  for (
    const argv of [["plugin", "-help"], ["plugin", "types", "-h"], ["plugin", "new", "-h"], [
      "help",
      "plugin",
    ]]
  ) {
    assert.deepEqual(parseCommand(argv, {}), help);
  }
  assert.throws(
    () => parseCommand(["plugin"], {}),
    /Cannot run "plugin": want one of list, .*, dev;/,
  );
  assert.throws(() => parseCommand(["plugin", "lists"], {}), /Cannot run "plugin lists": want/);
  assert.throws(() => parseCommand(["plugin", "list", "-x"], {}), /-x/);
  assert.throws(() => parseCommand(["plugin", "list", "a"], {}), /"a" follows it/);
  assert.throws(() => parseCommand(["plugin", "new"], {}), /want "postern plugin new NAME"/);
  assert.throws(() => parseCommand(["plugin", "new", "a", "b"], {}), /"a b" follows it/);
  assert.throws(() => parseCommand(["plugin", "new", "a\n"], {}), /control character/);
});
