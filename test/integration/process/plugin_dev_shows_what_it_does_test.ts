import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { OWN_ENGINE, posternCommand } from "../../kit/process/postern.ts";
import { eventually, Process } from "../../kit/process/process.ts";
import { LOADED_MS, promptly } from "../../kit/clock/promptly.ts";

const IN_TIME = { timeoutMs: 60_000 };

const pluginOf = (hook: string) =>
  `import * as v from "valibot";
export default {
  name: "marks", api: 1, phase: "filter", config: v.strictObject({ header: v.string() }),
  create: (host, { header }) => ({
    onRequest({ request }, next) {
      ${hook}
    },
  }),
};
`;
const marks = (value: string) =>
  pluginOf(
    `return next({ request: request.with({ headers: { set: { [header]: "${value}" } } }) });`,
  );

test("plugin dev waits for a plugin that loads, shows its work, and reloads it promptly", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-dev-test-"));
  try {
    const file = join(directory, "marks.js");
    await writeFile(file, pluginOf("return next(,);"));
    const [command = "", ...words] = posternCommand(OWN_ENGINE);
    const args = [...words, "plugin", "dev", file, "-config", '{"header":"x-mark"}'];
    await using dev = new Process(command, args, { name: "dev" });
    // None was good before.
    await dev.waitFor(/marks\.js: not loaded\n(?:.*\n)*?.*marks\.js:6:\d+/, IN_TIME);
    await writeFile(file, marks("first"));
    const [, url = ""] = await dev.waitFor(/curl -i (\S+)/, IN_TIME);
    const ask = async (path: string) => {
      const reply = await fetch(new URL(path, url));
      await reply.text();
      return reply.status;
    };
    assert.equal(await ask("/a"), 200);
    await dev.waitFor(
      /^GET \/a -> 200 .*asked by web\)\n {4}request {3}\+ x-mark: first\n/m,
      IN_TIME,
    );

    let value = "";
    await promptly("a saved file is loaded", LOADED_MS, async () => {
      value += "x";
      const loads = () => dev.output.split("marks.js: loaded\n").length;
      const before = loads();
      const savedMs = performance.now();
      await writeFile(file, marks(value));
      await eventually("it is loaded", () => Promise.resolve(loads() > before));
      return performance.now() - savedMs;
    });

    await writeFile(file, pluginOf("return next(,);"));
    await dev.waitFor(
      /not loaded; the last good one serves on\n(?:.*\n)*?.*marks\.js:6:\d+/,
      IN_TIME,
    );
    assert.equal(await ask("/b"), 200);
    await dev.waitFor(
      new RegExp(`^GET /b -> 200 .*\\n {4}request {3}\\+ x-mark: ${value}\\n`, "m"),
      IN_TIME,
    );

    await writeFile(file, pluginOf("return host.gone();"));
    await eventually("it fails", async () => await ask("/c") === 500);
    await dev.waitFor(
      /failed in onRequest: .*\n {4}at .*marks\.js:6:\d+\n {7}return host\.gone\(\);\n/,
      IN_TIME,
    );
    dev.kill("SIGINT");
    assert.deepEqual(await dev.waitExit(IN_TIME), { code: 0, signal: null });
    assert.match(dev.output, /\nStopping\.\n/);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test("plugin test -watch runs the tests again when one of their files is saved, until a signal", async () => {
  const directory = await mkdtemp(join(tmpdir(), "postern-watch-test-"));
  try {
    await writeFile(join(directory, "marks.js"), marks("first"));
    await writeFile(
      join(directory, "marks_test.js"),
      `import { mount } from "postern/kit";
import { equal } from "node:assert/strict";
import { test } from "node:test";
import plugin from "./marks.js";
test("marks", async () => {
  await using it = await mount(plugin, { config: { header: "x-mark" } });
  await it.request();
  equal(it.upstream.requests[0].header("x-mark"), "first");
});
test("other", () => equal(1, 2));
`,
    );
    const [command = "", ...words] = posternCommand(OWN_ENGINE);
    const args = [...words, "plugin", "test", directory, "-watch", "-only", "marks"];
    await using watching = new Process(command, args, { name: "watch" });
    await watching.waitFor(/1 passed, 0 failed .*\n\nSave a file/, IN_TIME);
    await writeFile(join(directory, "marks.js"), marks("second"));
    await watching.waitFor(/failed {2}marks [^]*0 passed, 1 failed .*\n\nSave a file/, IN_TIME);
    watching.kill("SIGINT");
    assert.deepEqual(await watching.waitExit(IN_TIME), { code: 1, signal: null });
  } finally {
    await rm(directory, { recursive: true });
  }
});
