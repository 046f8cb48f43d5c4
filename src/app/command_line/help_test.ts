import { strict as assert } from "node:assert";
import { test } from "node:test";
import { HELP_TOPICS, parseCommand } from "./args.ts";
import { PROXY_FLAGS } from "../flags/proxy_flags.ts";
import { helpText } from "./help.ts";

for (const topic of HELP_TOPICS) {
  test(`helpText() is at most 100 columns wide: ${topic || "commands"}`, () => {
    const text = helpText(topic);
    assert.match(text, /^Usage: postern .*\n/);
    assert.ok(text.endsWith("\n") && !text.endsWith("\n\n"));
    for (const line of text.split("\n")) {
      assert.ok(line.length <= 100 && line === line.trimEnd(), `${line.length}: ${line}`);
    }
  });

  test(`helpText() fits a terminal of 60 columns, with the same words: ${topic || "commands"}`, () => {
    const text = helpText(topic, 60);
    for (const line of text.split("\n")) {
      // A command is broken only before a flag.
      const isCommand = /^ {2,4}(?![# ])/.test(line);
      assert.ok(line.length <= 60 || isCommand, `${line.length}: ${line}`);
      assert.equal(line, line.trimEnd());
    }
    const wordsOf = (help: string) => help.split(/[\s\\#]+/);
    assert.deepEqual(wordsOf(text), wordsOf(helpText(topic)));
  });

  test(`helpText() has examples that parse: ${topic || "commands"}`, () => {
    const text = helpText(topic).replaceAll("\\\n", " ");
    for (const [, line = ""] of text.matchAll(/^ {2}((?:[A-Z_]+=\S+ )?postern .*)$/gm)) {
      const words = line.replace(/^[A-Z_]+=\S+ /, "").replace(/ (?:&&|>) .*/, "").split(/ +/);
      assert.doesNotThrow(() => parseCommand(words.slice(1), {}), line);
    }
  });
}

test("helpText() of the proxy names every flag and variable", () => {
  const text = helpText("proxy");
  for (const { name, env } of PROXY_FLAGS.flatMap(({ flags }) => flags)) {
    assert.ok(text.includes(`\n  -${name}`), name);
    if (env !== undefined) assert.ok(text.includes(`[$${env}]`), env);
  }
});

test("helpText() shows the defaults that are in force", () => {
  const text = helpText("proxy").replace(/\s+/g, " ");
  for (const [, words = ""] of text.matchAll(/ (-[a-z-]+ [A-Z]+ [^()]*\(default: \d\w*\))/g)) {
    const [, name = "", value = ""] = /^-([a-z-]+) .*\(default: (\w+)\)$/.exec(words) ?? [];
    const bare = parseCommand(["proxy", "-sidecar-for", "w"], {});
    const given = parseCommand(["proxy", "-sidecar-for", "w", `-${name}`, value], {});
    assert.deepEqual(given, bare, words);
  }
});
