/** Lists of plugins in configuration, and the files that they name, read and held against their pins. @module */

import { isAbsolute, resolve } from "node:path";
import * as v from "valibot";
import { messageOf } from "../../base/mod.ts";
import { whyNoImport, whyNoPluginName } from "../../plugin/mod.ts";
import { type ConfigPath, object, type Problem, text } from "../../base/schema.ts";
import {
  type Content,
  keepPart,
  type Keyed,
  type PluginCodePart,
  type PluginFile,
  type PluginUse,
  type Snapshot,
} from "../../snapshot/mod.ts";
import type { PluginWatch } from "./plugin_watch.ts";
import { bundle, type Bundled, sha256 } from "./bundle.ts";
import { isRemote, type RemoteBundles } from "./remote_bundles.ts";

const MAX_PLUGINS = 64;
const OF_A_FILE =
  'belongs to a plugin from a file, whose "use" has a slash or ends in .ts, .js or .bundle';

const NO_NAME = `is no name: ${whyNoPluginName("")}`;

/** Plugins of a listener. Each checks its configuration when it is loaded. */
export const PLUGINS = v.optional(v.pipe(
  v.array(v.pipe(
    object({
      use: text(),
      as: v.optional(v.pipe(text(), v.check((name) => !whyNoPluginName(name), NO_NAME))),
      sha256: v.optional(v.pipe(
        text(),
        v.toLowerCase(),
        v.regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits"),
      )),
      allow: v.optional(v.array(
        v.pipe(text(), v.regex(/^node:[a-z0-9_/]+$/, 'must be a module of Node\'s: "node:crypto"')),
      )),
      config: v.optional(v.unknown(), {}),
      routes: v.optional(v.record(text(), v.unknown())),
      onFailure: v.optional(v.picklist(["refuse", "skip"], 'must be "refuse" or "skip"'), "refuse"),
    }),
    v.forward(v.check((of) => of.sha256 === undefined || isFile(of.use), OF_A_FILE), ["sha256"]),
    v.forward(v.check((of) => of.allow === undefined || isFile(of.use), OF_A_FILE), ["allow"]),
  )),
  v.maxLength(MAX_PLUGINS, `has more than ${MAX_PLUGINS} entries`),
));

type Entry = NonNullable<v.InferOutput<typeof PLUGINS>>[number];
/** Plugins from files have `file` once it was read. */
export type PluginList = readonly (Entry & { readonly file?: PluginFile })[] | undefined;

/** Is it a path, and not the name of a plugin inside the executable? */
export function isFile(use: string): boolean {
  return use.includes("/") || isRemote(use) || /\.(?:[jt]s|bundle)$/.test(use);
}

/** `at`: path of the list in the configuration. `isForAll`: see {@link PluginUse.isForAll}. */
export function pluginUses(
  list: PluginList,
  at: string,
  isForAll = false,
): readonly PluginUse[] {
  return (list ?? []).map(({ use, as, file, config, routes, onFailure }, index) => ({
    plugin: use,
    ...(as !== undefined && { as }),
    ...(file && { file }),
    config,
    ...(routes && { routes }),
    onFailure,
    ...(isForAll && { isForAll }),
    at: `${at}[${index}]`,
  }));
}

/** By key, as in a snapshot. */
export type PluginCode = Keyed<Content<PluginCodePart>>;

/** As parts, with the version of `previous` where they were in it. */
export function keepCode(
  previous: Snapshot | undefined,
  code: PluginCode,
  version: number,
): Keyed<PluginCodePart> {
  const keep = (key: string, content: Content<PluginCodePart>) =>
    keepPart<PluginCodePart>(previous?.pluginCode[key], content, version);
  return Object.fromEntries(
    Object.entries(code).map(([key, content]) => [key, keep(key, content)]),
  );
}

/** More files than that in all lists are a mistake, and each may be long. */
const MAX_FILES = 64;

/** Each file is read once, however many lists name it. */
export class PluginReader {
  readonly problems: Problem[] = [];
  readonly #directory: string | undefined;
  readonly #watch: PluginWatch | undefined;
  readonly #remote: RemoteBundles | undefined;
  /** Digests of the remote bundles that the lists name. */
  readonly pins = new Set<string>();
  readonly code: Record<string, Content<PluginCodePart>> = {};
  readonly #bundled = new Map<string, Promise<Bundled>>();

  /**
   * `directory`: where relative paths begin; `undefined`: there must be none. `remote` absent: every
   * plugin is a file of this host.
   */
  constructor(directory: string | undefined, watch?: PluginWatch, remote?: RemoteBundles) {
    this.#watch = watch;
    this.#remote = remote;
    this.#directory = directory;
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
    const { use, sha256: pin } = entry;
    if (isRemote(use)) return await this.#readRemote(entry, at);
    if (use.startsWith("http://")) {
      this.problems.push({ path: [...at, "use"], message: "must begin with https://" });
      return entry;
    }
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
      return this.#taken(entry, { text, map, digest, libraries, outside, path });
    } catch (error) {
      const message = `names a plugin that cannot be loaded:\n    ${messageOf(error)}`;
      this.problems.push({ path: [...at, "use"], message });
      return entry;
    }
  }

  async #readRemote(
    entry: NonNullable<PluginList>[number],
    at: ConfigPath,
  ): Promise<typeof entry> {
    const { use, sha256: pin } = entry;
    if (!this.#remote) {
      const message = "names a bundle that only lists in Consul can name; write a path";
      this.problems.push({ path: [...at, "use"], message });
      return entry;
    }
    if (pin === undefined) {
      const message = `is missing: ${use} runs only with the digest of a bundle that was looked at`;
      this.problems.push({ path: [...at, "sha256"], message });
      return entry;
    }
    this.pins.add(pin);
    try {
      const bundle = await this.#remote.get(use, pin);
      return this.#taken(entry, { ...bundle, digest: pin, path: use });
    } catch (error) {
      this.problems.push({ path: [...at, "use"], message: `cannot be used: ${messageOf(error)}` });
      return entry;
    }
  }

  /** Throws where the code imports a module that it may not. */
  #taken(
    entry: NonNullable<PluginList>[number],
    { text, map, digest, libraries, outside, path }:
      & Pick<Bundled, "text" | "map" | "digest" | "libraries" | "outside">
      & { readonly path: string },
  ): typeof entry {
    const { allow = [] } = entry;
    const refused = outside.flatMap(({ name, by }) => {
      const why = whyNoImport(name, allow);
      return why ? [`${by} ${why}`] : [];
    });
    if (refused.length > 0) throw new Error([...new Set(refused)].join("; "));
    const code = sha256(text);
    this.code[code] = { text, path, map, libraries };
    const isPinned = entry.sha256 !== undefined;
    return { ...entry, file: { code, digest, allow, ...isPinned && { isPinned } } };
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
