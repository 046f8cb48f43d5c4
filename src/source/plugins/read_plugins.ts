/** The files that lists of plugins name: read, bundled, held against their pins. @module */

import { isAbsolute, resolve } from "node:path";
import { messageOf } from "../../base/mod.ts";
import { whyNoImport } from "../../plugin/mod.ts";
import type { ConfigPath, Problem } from "../../base/schema.ts";
import {
  type Content,
  keepPart,
  type Keyed,
  type PluginCodePart,
  type Snapshot,
} from "../../snapshot/mod.ts";
import { isFile, type PluginList } from "./plugin_uses.ts";
import type { PluginWatch } from "./plugin_watch.ts";
import { bundle, type Bundled, sha256 } from "./bundle.ts";

/** By key, as in a snapshot. */
export type PluginCode = Keyed<Content<PluginCodePart>>;

/** As parts, with the version of `previous` where they were in it. */
export function keepCode(
  previous: Snapshot | undefined,
  code: PluginCode,
  version: number,
): Keyed<PluginCodePart> {
  return Object.fromEntries(
    Object.entries(code).map(([key, content]) => [
      key,
      keepPart<PluginCodePart>(previous?.pluginCode[key], content, version),
    ]),
  );
}

/** More files than that in all lists are a mistake, and each may be long. */
const MAX_FILES = 64;

/** Each file is read once, however many lists name it. */
export class PluginReader {
  readonly problems: Problem[] = [];
  readonly #directory: string | undefined;
  readonly #watch: PluginWatch | undefined;
  readonly #code: Record<string, Content<PluginCodePart>> = {};
  readonly #bundled = new Map<string, Promise<Bundled>>();

  /** `directory`: where relative paths begin; `undefined`: there must be none. */
  constructor(directory: string | undefined, watch?: PluginWatch) {
    this.#watch = watch;
    this.#directory = directory;
  }

  get code(): PluginCode {
    return this.#code;
  }

  /** The list, at that path, with what its files were made into; without that where there are problems. */
  async read<List extends PluginList>(list: List, at: ConfigPath): Promise<List> {
    const entries = [];
    for (const [index, entry] of (list ?? []).entries()) {
      entries.push(isFile(entry.use) ? await this.#readEntry(entry, [...at, index]) : entry);
    }
    return list && (entries as NonNullable<PluginList> as List);
  }

  async #readEntry(entry: NonNullable<PluginList>[number], at: ConfigPath): Promise<typeof entry> {
    const { use, sha256: pin, allow = [] } = entry;
    if (this.#directory === undefined && !isAbsolute(use)) {
      this.problems.push({ path: [...at, "use"], message: "must be an absolute path" });
      return entry;
    }
    const path = resolve(this.#directory ?? "/", use);
    try {
      const { text, map, digest, libraries, outside } = await this.#bundle(path);
      if (pin !== undefined && pin !== digest) {
        const message = `is not the digest of ${use} and what it imports, which is ${digest}`;
        this.problems.push({ path: [...at, "sha256"], message });
        return entry;
      }
      const refused = outside.flatMap(({ name, by }) => {
        const why = whyNoImport(name, allow);
        return why ? [`${by} ${why}`] : [];
      });
      if (refused.length > 0) throw new Error([...new Set(refused)].join("; "));
      const code = sha256(text);
      this.#code[code] = { text, path, map, libraries };
      return { ...entry, file: { code, allow } };
    } catch (error) {
      const message = `names a plugin that cannot be loaded:\n    ${messageOf(error)}`;
      this.problems.push({ path: [...at, "use"], message });
      return entry;
    }
  }

  #bundle(path: string): Promise<Bundled> {
    const before = this.#bundled.get(path);
    if (before) return before;
    if (this.#bundled.size >= MAX_FILES) throw new Error(`more than ${MAX_FILES} files are named`);
    const bundled = bundle(path, { watch: this.#watch });
    this.#bundled.set(path, bundled);
    return bundled;
  }
}
