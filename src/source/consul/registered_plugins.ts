/**
 * Plugins that a registration and proxy-defaults name. Their files are read when a list changes and on
 * every reload; until new ones can be used the previous ones stay.
 *
 * Consul merges `Config` of proxy-defaults into a registration key by key, and a registration's own list
 * replaces the list of all proxies. Here the two are joined: both are read where they were written.
 *
 * @module
 */

import * as v from "valibot";
import type { Clock, Timer } from "../../base/mod.ts";
import { formatPath, isRecord, type Problem, problemOf } from "../../base/schema.ts";
import type { Defaults, Registration, UpstreamDeclaration } from "../../consul/mod.ts";
import {
  INBOUND_KEY,
  type PluginUse,
  type Refusal,
  sameContent,
  type Snapshot,
} from "../../snapshot/mod.ts";
import { type PluginCode, PluginReader, PLUGINS, pluginUses } from "../plugins/read_plugins.ts";
import type { PluginWatch } from "../plugins/plugin_watch.ts";
import { type ReadKey, RemoteBundles } from "../plugins/remote_bundles.ts";

/** Plugins of one listener. */
interface UsedPlugins {
  readonly uses: readonly PluginUse[];
  readonly code: PluginCode;
}

/** The plugins of one listener, and why its newest lists cannot be used. */
export interface PluginsHeld {
  /** `undefined`: none could be used so far, or their files are being read. */
  readonly used: UsedPlugins | undefined;
  readonly refused: readonly Refusal[];
}

/** By listener: {@link INBOUND_KEY} or the id of an upstream. A listener that is absent has no list. */
export type RegisteredLists = ReadonlyMap<string, PluginsHeld>;

/** A list as written, and its place, which begins the paths of its problems. */
interface WrittenList {
  readonly at: string;
  readonly value: unknown;
  /** It is for all upstreams or all proxies, and some of those carry bytes. */
  readonly isForAll: boolean;
}

interface WrittenLists {
  /** The upstream's name; `""`: the public listener. */
  readonly name: string;
  readonly lists: readonly WrittenList[];
}

const KEY = "postern_plugins";
const UPSTREAM_KEY = "postern_upstream_plugins";
const FLEET = "proxy-defaults global";
/** The key of the list for all upstreams. */
const ALL = "*";

export const NO_PLUGINS: PluginsHeld = { used: { uses: [], code: {} }, refused: [] };
const UNREAD: PluginsHeld = { used: undefined, refused: [] };

/** Delay before a remote bundle that could not be fetched is fetched again; it doubles. */
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 60_000;

interface RegisteredPluginsOptions {
  readonly clock: Pick<Clock, "after">;
  readonly readKey: ReadKey;
  readonly watch?: PluginWatch | undefined;
  /** {@link RegisteredPlugins.held} has changed. */
  onChange(): void;
}

export class RegisteredPlugins {
  readonly #options: RegisteredPluginsOptions;
  readonly #remote: RemoteBundles;
  #retry: Timer | undefined;
  #retryMs = RETRY_MS;
  #held: RegisteredLists = new Map([[INBOUND_KEY, UNREAD]]);
  #written: Readonly<Record<string, WrittenLists>> = {};
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: RegisteredPluginsOptions) {
    this.#options = options;
    this.#remote = new RemoteBundles(options.readKey);
    options.watch?.start(() => void this.refresh());
  }

  get held(): RegisteredLists {
    return this.#held;
  }

  /**
   * `defaults`: the entry for all proxies; `undefined`: it has not been read, and the listeners that have
   * a list of the registration wait for it.
   */
  follow(registration: RegisteredLike, defaults: Partial<Defaults> | null | undefined): void {
    const written = writtenLists(registration, defaults ?? {});
    const held = new Map<string, PluginsHeld>();
    const isFresh = defaults !== undefined && !sameContent(this.#written, written);
    for (const [listener, { lists }] of Object.entries(written)) {
      held.set(listener, lists.length === 0 ? NO_PLUGINS : this.#held.get(listener) ?? UNREAD);
    }
    this.#held = held;
    if (!isFresh) return;
    this.#written = written;
    this.#retryMs = RETRY_MS;
    void this.refresh();
  }

  /** Reads the files again. True: all can be used. */
  async refresh(): Promise<boolean> {
    this.#reading = this.#reading.then(() => this.#read());
    await this.#reading;
    return [...this.#held.values()].every(({ refused }) => refused.length === 0);
  }

  close(): void {
    this.#closed = true;
    this.#retry?.cancel();
    this.#options.watch?.close();
  }

  async #read(): Promise<void> {
    this.#retry?.cancel();
    const written = this.#written;
    const reader = new PluginReader(undefined, this.#options.watch, this.#remote);
    const read = new Map<string, PluginsHeld>();
    for (const [listener, lists] of Object.entries(written)) {
      if (lists.lists.length > 0) read.set(listener, await readLists(lists, reader));
    }
    // The lists may have changed meanwhile; the new ones are read next.
    if (this.#closed || this.#written !== written || read.size === 0) return;
    const held = new Map(this.#held);
    for (const [listener, { used, refused }] of read) {
      held.set(listener, { used: used ?? held.get(listener)?.used, refused });
    }
    this.#held = held;
    this.#remote.keep(reader.pins);
    if (reader.pins.size > 0 && reader.problems.length > 0) this.#readAgain();
    this.#options.onChange();
  }

  /** The key may be written after the list that pins it, and Consul or a server may be away. */
  #readAgain(): void {
    this.#retry = this.#options.clock.after(this.#retryMs, () => void this.refresh());
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MAX_MS);
  }
}

type RegisteredLike = Pick<Registration, "plugins" | "upstreamPlugins"> & {
  readonly upstreams: readonly Pick<UpstreamDeclaration, "id" | "name" | "plugins">[];
};

/** Lists of each listener in the order in which they are joined: those of all proxies come first. */
function writtenLists(
  registration: RegisteredLike,
  fleet: Pick<Defaults, "plugins" | "upstreamPlugins">,
): Readonly<Record<string, WrittenLists>> {
  // A registration without a list of its own has that of all proxies.
  const own = (key: "plugins" | "upstreamPlugins") =>
    sameContent(registration[key], fleet[key]) ? undefined : registration[key];
  const ofUpstream = (name: string) => [
    ...listsFor(name, fleet.upstreamPlugins, `${FLEET}: `),
    ...listsFor(name, own("upstreamPlugins"), ""),
  ];
  const written: Record<string, WrittenLists> = {
    [INBOUND_KEY]: {
      name: "",
      lists: [
        ...listAt(fleet.plugins, `${FLEET}: ${KEY}`, true),
        ...listAt(own("plugins"), KEY),
      ],
    },
  };
  for (const { id, name, plugins } of registration.upstreams) {
    const at = `upstream ${name}: ${KEY}`;
    written[id] = { name, lists: [...ofUpstream(name), ...listAt(plugins, at)] };
  }
  return written;
}

/** A sentence for each list of the registration whose upstream does not exist. */
export function unusedLists({ upstreamPlugins, upstreams }: RegisteredLike): readonly string[] {
  const names = new Set([ALL, ...upstreams.map(({ name }) => name)]);
  const map = mapOf(upstreamPlugins);
  if (!isRecord(map)) return [];
  return Object.keys(map).filter((name) => !names.has(name)).map((name) =>
    `${formatPath([UPSTREAM_KEY, name])} is not used: the registration has no such upstream`
  );
}

/** HCL writes a map as a list of one. */
function mapOf(written: unknown): unknown {
  return Array.isArray(written) && written.length === 1 ? written[0] : written;
}

/** The lists for all upstreams and for `name` of a map by name. */
function listsFor(name: string, written: unknown, where: string): readonly WrittenList[] {
  const map = mapOf(written);
  if (map === undefined) return [];
  if (!isRecord(map)) return listAt(map, `${where}${UPSTREAM_KEY}`);
  return [ALL, name].flatMap((key) => {
    return listAt(map[key], `${where}${formatPath([UPSTREAM_KEY, key])}`, key === ALL);
  });
}

function listAt(value: unknown, at: string, isForAll = false): readonly WrittenList[] {
  return value === undefined ? [] : [{ at, value, isForAll }];
}

/**
 * The plugins of `held`, or else those of `previous` that a registration named; `undefined`: the listener
 * stays closed.
 */
export function pluginsInForce(
  { used }: PluginsHeld,
  { plugins, pluginCode }: {
    /** Those of the previous snapshot; `undefined`: it had no such listener. */
    readonly plugins: readonly PluginUse[] | undefined;
    readonly pluginCode: Snapshot["pluginCode"];
  },
): UsedPlugins | undefined {
  if (used || !plugins) return used;
  const uses = plugins.filter(({ at }) => at.includes(KEY) || at.includes(UPSTREAM_KEY));
  const files = new Set(uses.map(({ file }) => file?.code));
  const code = Object.entries(pluginCode).filter(([key]) => files.has(key))
    .map(([key, { version: _, ...content }]) => [key, content]);
  return { uses, code: Object.fromEntries(code) };
}

/** A plugin of a later list replaces one of the same name in an earlier list. */
export function joinPlugins(
  earlier: readonly PluginUse[],
  later: readonly PluginUse[],
): readonly PluginUse[] {
  const names = new Set(later.map(({ plugin, as = plugin }) => as));
  return [...earlier.filter(({ plugin, as = plugin }) => !names.has(as)), ...later];
}

/** Names the part that the listener waits for. */
export function pluginsLack({ refused }: PluginsHeld): string {
  const reasons = refused.map(({ reason }) => reason).join("; ");
  return reasons ? `plugins that can be used: ${reasons}` : "plugins, whose files are being read";
}

async function readLists(
  { name, lists }: WrittenLists,
  reader: PluginReader,
): Promise<PluginsHeld> {
  const problems: string[] = [];
  let uses: readonly PluginUse[] = [];
  for (const { at, value, isForAll } of lists) {
    const parsed = v.safeParse(PLUGINS, listOf(value));
    if (!parsed.success) {
      problems.push(...parsed.issues.map(problemOf).map((problem) => shown(problem, at)));
      continue;
    }
    const known = reader.problems.length;
    const list = await reader.read(parsed.output, []);
    problems.push(...reader.problems.slice(known).map((problem) => shown(problem, at)));
    uses = joinPlugins(uses, pluginUses(list, at, isForAll));
  }
  if (problems.length === 0) {
    const files = new Set(uses.map(({ file }) => file?.code));
    const code = Object.entries(reader.code).filter(([key]) => files.has(key));
    return { used: { uses, code: Object.fromEntries(code) }, refused: [] };
  }
  const what = name ? `plugins of ${name}` : "plugins";
  return { used: undefined, refused: [{ what, reason: problems.join("; ") }] };
}

function shown({ path, message }: Problem, at: string): string {
  return `${at}${formatPath(path)} ${message}`;
}

/** HCL writes a list of one as its element, and a map as a list of one. The content of `config` stays. */
function listOf(value: unknown): unknown {
  const list = Array.isArray(value) ? value : [value];
  return list.map((entry) => {
    if (typeof entry !== "object" || entry === null) return entry;
    const { config, allow, routes } = entry;
    const byRoute = mapOf(routes);
    return {
      ...entry,
      ...(Array.isArray(config) && config.length === 1 && { config: config[0] }),
      ...(isRecord(byRoute) && {
        routes: Object.fromEntries(
          Object.entries(byRoute).map(([route, own]) => [route, mapOf(own)] as const),
        ),
      }),
      ...(typeof allow === "string" && { allow: [allow] }),
    };
  });
}
