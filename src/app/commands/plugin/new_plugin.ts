/**
 * `postern plugin new`: a directory with a plugin that works, its tests, and the types that an editor needs.
 *
 * @module
 */

import { mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf, ProxyError } from "../../../base/mod.ts";
import { whyNoPluginName } from "../../../plugin/mod.ts";
import { filesOf, TYPES_DIRECTORY } from "./templates.ts";
import { LANGUAGE, typeFiles } from "./type_files.ts";

/** Writes `NAME/` into `within`, which must not have one. Returns the exit code. */
export async function newPlugin(
  name: string,
  write: (text: string) => void,
  within = ".",
): Promise<number> {
  const fault = whyNoPluginName(name);
  if (fault) {
    throw new ProxyError("usage", `Cannot call a plugin ${JSON.stringify(name)}: ${fault}`);
  }
  const types = Object.entries(await typeFiles()).filter(([path]) => !path.startsWith(LANGUAGE))
    .map(([path, text]) => [join(TYPES_DIRECTORY, path), text] as const);
  const directory = join(within, name);
  const cannot = (error: unknown) => {
    const { code } = error as { readonly code?: string };
    const fact = code === "EEXIST" ? "there is one already" : messageOf(error);
    return new ProxyError("usage", `Cannot write the directory ${directory}: ${fact}`);
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
