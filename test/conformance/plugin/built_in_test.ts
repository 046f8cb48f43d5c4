/**
 * Rules that every plugin inside the executable keeps, each run with the configuration of the example on
 * its page.
 */

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { hold, mount, type Mounted, ok, settle } from "../../../src/kit/mod.ts";
import { BUILT_IN_NAMES, loadBuiltIn } from "../../../src/built_in/mod.ts";

const PLUGINS = join(dirname(fileURLToPath(import.meta.url)), "../../../plugins");

/** The services that the examples call. */
const CALLEES = { "127.0.0.1:9191": [ok()] };

/** Before any of them is loaded. */
const GLOBALS: ReadonlySet<string> = new Set(Object.keys(globalThis));

/** The example on the plugin's page; another test checks that there is one. */
function exampleOf(name: string): unknown {
  const path = join(PLUGINS, name, "README.md");
  const page = existsSync(path) ? readFileSync(path, "utf8") : "";
  for (const [, text = ""] of page.matchAll(/```json\n(.*?)```/gs)) {
    const example = JSON.parse(text);
    for (const { plugins = [] } of [example, example.inbound ?? {}, ...example.upstreams ?? []]) {
      for (const { use, config = {} } of plugins) if (use === name) return config;
    }
  }
  return {};
}

/** A plugin's failures are logged, and nothing is left of a plugin that was closed. */
async function closed(mounted: Mounted): Promise<void> {
  await mounted[Symbol.asyncDispose]();
  // Work that it began in another thread, such as reading a key or resolving a name, ends on its own.
  const untilMs = performance.now() + 5_000;
  while (mounted.clock.pending > 0 && performance.now() < untilMs) await settle();
  assert.equal(mounted.clock.pending, 0, "timers are set still");
  const faults = mounted.logs.filter(({ message }) => /failed/.test(message));
  assert.deepEqual(faults, []);
}

for (const name of BUILT_IN_NAMES) {
  const definition = await loadBuiltIn(name);
  const config = exampleOf(name);

  test(`${name} is loaded without any effect`, async () => {
    const before = { setTimeout, setInterval, fetch };
    const started: string[] = [];
    const names = ["setTimeout", "setInterval", "fetch"] as const;
    for (const one of names) {
      globalThis[one] = (() => started.push(one)) as never;
    }
    try {
      const { href } = pathToFileURL(join(PLUGINS, name, `${name}.ts`));
      const fresh = await import(`${href}?anew`);
      assert.equal(fresh.default.name, name);
    } finally {
      for (const one of names) globalThis[one] = before[one] as never;
    }
    assert.deepEqual(started, []);
    assert.deepEqual(Object.keys(globalThis).filter((key) => !GLOBALS.has(key)), []);
  });

  test(`${name} refuses an unknown key, and the loaded configuration stays in use`, async () => {
    const wrong = { ...config as object, no_such_key: 1 };
    await assert.rejects(mount(definition, { callees: CALLEES, config: wrong }), /no_such_key/);
    const mounted = await mount(definition, { callees: CALLEES, config });
    await assert.rejects(mounted.reload(wrong), /no_such_key/);
    const { failure } = await mounted.request();
    assert.notEqual(failure?.code, "plugin_failed");
    await closed(mounted);
  });

  test(`${name} is made twice, and closed twice, unused`, async () => {
    const both = [
      await mount(definition, { callees: CALLEES, config }),
      await mount(definition, { callees: CALLEES, config }),
    ];
    for (const mounted of both) await closed(mounted);
  });

  test(`${name} survives a caller that leaves`, async () => {
    const mounted = await mount(definition, { callees: CALLEES, config, upstream: [hold()] });
    const leaving = new AbortController();
    const asked = mounted.request({
      method: "POST",
      body: ["a", "b"],
      signal: leaving.signal,
    });
    await settle();
    leaving.abort();
    const { failure } = await asked;
    assert.notEqual(failure?.code, "plugin_failed");
    for (const { isGivenUp } of mounted.upstream.requests) assert.equal(isGivenUp, true);
    await closed(mounted);
  });

  test(`${name} sends a request once that is answered, and loses nothing of either body`, async () => {
    const upstream = [ok("one", "two", "three")];
    const mounted = await mount(definition, { callees: CALLEES, config, upstream });
    const answer = await mounted.request({ method: "POST", body: ["four", "five", "six"] });
    assert.notEqual(answer.failure?.code, "plugin_failed");
    const seen = mounted.upstream.requests;
    assert.ok(seen.length <= 1, `it was sent ${seen.length} times`);
    for (const { body, isComplete } of seen) {
      assert.deepEqual([body, isComplete], ["fourfivesix", true]);
      const isCoded = answer.headers.get("content-encoding") !== undefined;
      if (answer.status === 200 && !isCoded) assert.equal(answer.body, "onetwothree");
    }
    await closed(mounted);
  });
}
