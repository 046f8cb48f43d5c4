/** `postern plugin bundle`: writes a plugin and all that it imports into one file. @module */

import { readFile, rename, writeFile } from "node:fs/promises";
import { extname, join, resolve } from "node:path";
import { messageOf } from "../../../base/mod.ts";
import { isRecord } from "../../../base/schema.ts";
import { BUNDLE_EXTENSION, type Bundled, formatBundle, sha256 } from "../../../source/mod.ts";
import { loadPlugin } from "./check_plugin.ts";
import { shown, type Write } from "./plugin_files.ts";

/** Writes `shop.bundle` beside `shop.ts`, for each file; returns the exit code. */
export async function bundlePlugins(files: readonly string[], write: Write): Promise<number> {
  let code = 0;
  for (const file of files) {
    const text = await bundlePlugin(resolve(file)).catch((error) => {
      code = 1;
      return `Cannot bundle ${messageOf(error)}\n`;
    });
    write(text);
  }
  return code;
}

async function bundlePlugin(path: string): Promise<string> {
  const extension = extname(path);
  if (extension === BUNDLE_EXTENSION) throw new Error(`${shown(path)}: it is a bundle already`);
  const loaded = await loadPlugin(path);
  if ("faults" in loaded) throw new Error(loaded.faults.join("\n  "));
  const { plugin: { name, api, phase }, allow: needs, code } = loaded;
  const { digest: sources, libraries, text, map } = code;
  const sbom = await billOf(name, code);
  const content = formatBundle({ name, api, phase, sources, needs, libraries, sbom, text, map });
  const to = `${path.slice(0, -extension.length)}${BUNDLE_EXTENSION}`;
  // A proxy that watches the file never reads half of it.
  await writeFile(`${to}.new`, content);
  await rename(`${to}.new`, to);
  const allow = needs.map((need) => JSON.stringify(need)).join(", ");
  const count = sbom.components.length;
  const inside = `${count} ${count === 1 ? "package" : "packages"} inside`;
  return `${shown(to)}: plugin ${name}, phase ${phase}, ${inside}
    { "use": ${JSON.stringify(to)}, "sha256": "${sha256(content)}"${
    allow && `, "allow": [${allow}]`
  } }
`;
}

/** The packages of the files that were read, as CycloneDX 1.5. */
async function billOf(name: string, { files, digest }: Pick<Bundled, "files" | "digest">) {
  const directories = new Set(files.flatMap((file) => PACKAGE.exec(file)?.[0] ?? []));
  const packages = await Promise.all([...directories].sort().map(packageAt));
  const components = packages.map((found) => {
    const purl = `pkg:npm/${found.name.replace("@", "%40")}@${found.version}`;
    const licenses = found.license === "" ? [] : [{ license: { name: found.license } }];
    return {
      type: "library",
      "bom-ref": purl,
      name: found.name,
      version: found.version,
      purl,
      licenses,
    };
  });
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      component: {
        type: "library",
        "bom-ref": name,
        name,
        hashes: [{ alg: "SHA-256", content: digest }],
      },
    },
    components,
  };
}

/** The directory of the package that a file belongs to. */
const PACKAGE = /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/;

async function packageAt(directory: string) {
  const json: unknown = JSON.parse(await readFile(join(directory, "package.json"), "utf8"));
  const textOf = (key: string) => isRecord(json) && typeof json[key] === "string" ? json[key] : "";
  return { name: textOf("name"), version: textOf("version"), license: textOf("license") };
}
