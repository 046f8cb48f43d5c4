/** `postern plugin new`: a directory with a plugin that works, its tests and types. @module */

import { usage } from "../../flags/parse_flags.ts";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf } from "../../../base/mod.ts";
import { whyNoPluginName } from "../../../plugin/mod.ts";
import { LANGUAGE, LANGUAGE_LIBS, typeFiles, TYPES_OF } from "./type_files.ts";

/** Writes `NAME/` into `within`, which must not have one. Returns the exit code. */
export async function newPlugin(
  name: string,
  write: (text: string) => void,
  within = ".",
): Promise<number> {
  const fault = whyNoPluginName(name);
  if (fault) throw usage(`Cannot call a plugin ${JSON.stringify(name)}: ${fault}`);
  const types = Object.entries(await typeFiles()).filter(([path]) => !path.startsWith(LANGUAGE))
    .map(([path, text]) => [join(TYPES_DIRECTORY, path), text] as const);
  const directory = join(within, name);
  const cannot = (error: unknown) => {
    const { code } = error as { readonly code?: string };
    const fact = code === "EEXIST" ? "there is one already" : messageOf(error);
    return usage(`Cannot write the directory ${directory}: ${fact}`);
  };
  // Not recursive: mkdir fails when the directory exists.
  await mkdir(directory).catch((error) => {
    throw cannot(error);
  });
  try {
    for (const [path, text] of [...Object.entries(filesOf(name)), ...types]) {
      const file = join(directory, path);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text, { flag: "wx" });
    }
  } catch (error) {
    // It was created a moment ago: no other program has written into it.
    await rm(directory, { recursive: true, force: true });
    throw cannot(error);
  }
  write(wroteText(name));
  return 0;
}

function wroteText(name: string): string {
  const rows = [
    [`${name}.ts`, "the plugin: marks each request with a header"],
    [`${name}_test.ts`, "its tests"],
    ["README.md", "how it is used"],
    ["tsconfig.json", "for the editor, with types/: the contract (postern.d.ts), valibot, jose"],
  ] as const;
  const width = Math.max(...rows.map(([file]) => file.length));
  return `Wrote ${name}/

${rows.map(([file, about]) => `    ${file.padEnd(width)}  ${about}\n`).join("")}
Next:

    cd ${name}
    postern plugin test ${name}.ts    its tests, which pass
    postern plugin dev ${name}.ts     what it does to requests, while you write it
    postern plugin check ${name}.ts   its types, and what a proxy would say of it
`;
}

/** Directory of the types for editors, below the plugin's. */
const TYPES_DIRECTORY = "types";

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

function filesOf(name: string): Readonly<Record<string, string>> {
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
