/**
 * The files of a new plugin: one that works, with tests that pass, to be made into another.
 *
 * @module
 */

import { LANGUAGE_LIBS, TYPES_OF } from "./type_files.ts";

/** Directory of the types for editors, below the plugin's. */
export const TYPES_DIRECTORY = "types";

/** `postern plugin check` uses the same. */
export const COMPILER_OPTIONS = {
  target: "esnext",
  module: "esnext",
  moduleResolution: "bundler",
  lib: LANGUAGE_LIBS,
  types: [],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noImplicitOverride: true,
  noFallthroughCasesInSwitch: true,
  verbatimModuleSyntax: true,
  erasableSyntaxOnly: true,
  allowImportingTsExtensions: true,
  resolveJsonModule: true,
  skipLibCheck: true,
  noEmit: true,
} as const;

/** Texts by name. */
export function filesOf(name: string): Readonly<Record<string, string>> {
  return {
    [`${name}.ts`]: moduleText(name),
    [`${name}_test.ts`]: testText(name),
    "README.md": readmeText(name),
    "tsconfig.json": `${JSON.stringify(projectOf(), null, 2)}\n`,
  };
}

function projectOf(): object {
  const paths = Object.entries(TYPES_OF).map(([module, path]) => [
    module,
    [`./${TYPES_DIRECTORY}/${path}`],
  ]);
  return { compilerOptions: { ...COMPILER_OPTIONS, paths: Object.fromEntries(paths) } };
}

function moduleText(name: string): string {
  return `/** Marks each request with a header. */

import * as v from "valibot";
import type { Plugin, PluginDefinition } from "postern";

/** The keys of "config"; an unknown key is an error. */
const Config = v.strictObject({
  header: v.optional(v.string(), "x-${name.replaceAll("_", "-")}"),
});

export default {
  name: "${name}",
  api: 1,
  // Around the request on its route. The others: guard, route, retry, attempt.
  phase: "filter",
  config: Config,
  // Once for each configuration, before it serves.
  create(host, { header }): Plugin {
    const marked = host.stats.counter("marked", { help: "Requests that got the header" });
    return {
      // For each request. next() forwards its argument; the returned response goes back to the caller.
      onRequest({ request }, next) {
        marked.add(1);
        return next({ request: request.with({ headers: { set: { [header]: "yes" } } }) });
      },
    };
  },
} satisfies PluginDefinition<typeof Config>;
`;
}

function testText(name: string): string {
  return `import assert from "node:assert/strict";
import { test } from "node:test";
import { mount } from "postern/kit";
import plugin from "./${name}.ts";

test("${name} marks each request", async () => {
  await using it = await mount(plugin, { config: { header: "x-mark" } });
  const answer = await it.request({ path: "/orders" });
  assert.equal(answer.status, 200);
  assert.equal(it.upstream.requests[0]?.header("x-mark"), "yes");
  assert.equal(it.stat("marked"), 1);
});

test("${name} takes no key that it does not know", async () => {
  await assert.rejects(mount(plugin, { config: { heder: "x-mark" } }), /heder/);
});
`;
}

function readmeText(name: string): string {
  return `# ${name}

Marks each request with a header.

\`\`\`json
{ "use": "./${name}.ts", "config": { "header": "x-${name.replaceAll("_", "-")}" } }
\`\`\`

This is an entry of a list of \`plugins\`, at \`inbound\` or at an upstream of a configuration file.

| key      | default |                                      |
| -------- | ------- | ------------------------------------ |
| \`header\` | \`x-${name.replaceAll("_", "-")}\` | the header's name; its value is \`yes\` |

\`\`\`sh
postern plugin check ${name}.ts   # types and contract
postern plugin test ${name}.ts    # its tests
postern plugin dev ${name}.ts     # what it does to requests, while it is written
\`\`\`

\`types/\` is for the editor: the contract is \`types/postern.d.ts\`, and all that there is to know of it.
`;
}
