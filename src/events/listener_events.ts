/** Events of listeners and upstreams: address, protocol, limits, plugins, settings. Pure. @module */

import { formatAddress, type NewEvent } from "../base/mod.ts";
import {
  type InboundPart,
  type PluginUse,
  sameContent,
  type Snapshot,
  upstreamLabel,
  type UpstreamPart,
} from "../snapshot/mod.ts";

/** Settings with words of their own, and those that other events are about. */
const LIMITS: Readonly<Record<string, string>> = {
  maxConnections: "connections",
  maxClientConnections: "connections of callers",
  maxPending: "waiting connections",
  maxRequests: "open requests",
  idleTimeoutMs: "idle timeout",
  lifetimeMs: "lifetime of connections",
  localConnectTimeoutMs: "connect timeout",
  handshakeTimeoutMs: "handshake timeout",
};
const HTTP_LIMITS: Readonly<Record<string, string>> = {
  headBytes: "bytes of a request's head",
  requestTimeoutMs: "request timeout",
  streamIdleTimeoutMs: "idle timeout of requests",
};
const OF_THEIR_OWN = new Set([
  "version",
  "http",
  "plugins",
  "bind",
  "local",
  "path",
  "chain",
  "hosts",
]);

/** What the listeners of all kinds have. */
type ListenerPart =
  & Pick<InboundPart, "version" | "http">
  & Partial<Pick<UpstreamPart, "plugins"> & Pick<InboundPart, "local">>
  & { readonly bind: UpstreamPart["bind"]; readonly path?: string };

export function listenerEvents(before: Snapshot, after: Snapshot): NewEvent[] {
  const events: NewEvent[] = [];
  const kinds = ["inbound", "exposed", "upstreams", "edges"] as const;
  for (const kind of kinds) {
    const [old, now]: Readonly<Record<string, ListenerPart>>[] = [before[kind], after[kind]];
    const nameOf = (key: string) => {
      const upstream = kind === "upstreams" && (after.upstreams[key] ?? before.upstreams[key]);
      return upstream ? upstreamLabel(upstream) : key;
    };
    const what = kind === "upstreams" ? "upstream" : "listener";
    for (const [key, part] of Object.entries(now ?? {})) {
      const was = old?.[key];
      if (!was) {
        const text = `${what} ${nameOf(key)} added${atText(part)}`;
        events.push({ kind: "listener", subject: nameOf(key), text });
      } else if (was.version !== part.version) {
        events.push(...changedListener(nameOf(key), was, part));
      }
    }
    for (const [key, part] of Object.entries(old ?? {})) {
      if (now && Object.hasOwn(now, key)) continue;
      const text = `${what} ${nameOf(key)} removed${atText(part)}`;
      events.push({ kind: "listener", subject: nameOf(key), text });
    }
  }
  if (before.accessLog?.version !== after.accessLog?.version) {
    const text = !after.accessLog
      ? "access log off"
      : before.accessLog
      ? "access log changed"
      : "access log on";
    events.push({ kind: "listener", subject: "access log", text });
  }
  const came = Object.entries(after.pluginCode).filter(([key]) => !before.pluginCode[key]);
  const digests = digestsOf(after);
  for (const [key, { path }] of came) {
    const text = `code of ${path} loaded${digestText(digests.get(key))}`;
    events.push({ kind: "plugin", subject: path, text });
  }
  return events.length <= LISTENERS_SHOWN ? events : [{
    kind: "listener",
    subject: "several",
    text: `${events.length} changes of listeners; ${
      Object.keys(after.upstreams).length
    } upstreams in force`,
  }];
}

const LISTENERS_SHOWN = 30;

function changedListener(subject: string, was: ListenerPart, now: ListenerPart): NewEvent[] {
  const events: NewEvent[] = [];
  const add = (kind: NewEvent["kind"], text: string) => events.push({ kind, subject, text });
  const [before, after] = [protocolOf(was), protocolOf(now)];
  if (before !== after) add("protocol", `protocol of ${subject} ${before} to ${after}`);
  if (!sameContent(was.bind, now.bind)) {
    add("listener", `${subject} moved${atText(was, "from")}${atText(now, "to")}`);
  }
  if (was.local && now.local && !sameContent(was.local, now.local)) {
    const [from, to] = [formatAddress(was.local), formatAddress(now.local)];
    add("listener", `application of ${subject} ${from} to ${to}`);
  }
  if (was.path !== now.path) add("listener", `exposed path ${was.path} to ${now.path}`);
  const plugins = pluginText(was.plugins ?? [], now.plugins ?? []);
  if (plugins !== "") add("plugin", `plugins of ${subject}: ${plugins}`);
  // With another protocol all settings of HTTP come or go.
  const [a, b] = was.http && now.http ? [was.http, now.http] : [{}, {}];
  const limits = [...limitTexts(was, now, LIMITS), ...limitTexts(a, b, HTTP_LIMITS)];
  for (const text of limits) add("limit", `${text} (${subject})`);
  const others = [
    ...changedKeys(was, now).filter((key) => !OF_THEIR_OWN.has(key) && !LIMITS[key]),
    ...changedKeys(a, b).filter((key) => key !== "protocol" && !HTTP_LIMITS[key]),
  ];
  if (others.length > 0) add("listener", `settings of ${subject} changed: ${others.join(", ")}`);
  return events;
}

function protocolOf({ http }: ListenerPart): string {
  return http?.protocol ?? "tcp";
}

function atText({ bind }: ListenerPart, word = "at"): string {
  return bind ? ` ${word} ${formatAddress(bind)}` : "";
}

type Settings = Readonly<Record<string, unknown>>;

function changedKeys(was: object, now: object): string[] {
  const [a, b] = [was as Settings, now as Settings];
  return [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter((key) => !sameContent(a[key], b[key]));
}

function limitTexts(was: object, now: object, names: Readonly<Record<string, string>>): string[] {
  const [a, b] = [was as Settings, now as Settings];
  return changedKeys(was, now).filter((key) => names[key] !== undefined).map((key) => {
    // An upstream with the limit 0 allows no connection.
    const isUnlimited = (value: unknown) =>
      value === undefined || value === 0 && key === "maxConnections" && "local" in now;
    const shown = (value: unknown) => {
      if (key.endsWith("Ms")) return value ? `${value} ms` : "none";
      return isUnlimited(value) ? "no limit" : String(value);
    };
    return `${names[key]} ${shown(a[key])} to ${shown(b[key])}`;
  });
}

/** By the key of the code. */
function digestsOf({ inbound, upstreams, edges }: Snapshot): ReadonlyMap<string, string> {
  const parts = [inbound, upstreams, edges].flatMap((parts): readonly ListenerPart[] =>
    Object.values(parts)
  );
  return new Map(
    parts.flatMap(({ plugins = [] }) => plugins)
      .flatMap(({ file }) => file ? [[file.code, file.digest] as const] : []),
  );
}

const DIGEST_CHARS = 12;

/** The first digits tell digests apart; `/plugins` has all of them. */
function digestText(digest: string | undefined): string {
  return digest === undefined ? "" : ` (sha256 ${digest.slice(0, DIGEST_CHARS)})`;
}

/** Names only: a plugin's configuration may hold secrets. */
function pluginText(was: readonly PluginUse[], now: readonly PluginUse[]): string {
  const names = (uses: readonly PluginUse[]) =>
    uses.map(({ plugin, file }) => plugin + digestText(file?.digest));
  const [old, next] = [names(was), names(now)];
  const texts = [
    ...next.filter((name) => !old.includes(name)).map((name) => `${name} added`),
    ...old.filter((name) => !next.includes(name)).map((name) => `${name} removed`),
    ...now.filter((use) => was.some((one) => isSameCode(one, use) && !sameUse(one, use)))
      .map(({ plugin }) => `${plugin} configured again`),
  ];
  if (texts.length === 0 && !sameContent(old, next)) return "another order";
  return [...new Set(texts)].join(", ");
}

function isSameCode(a: PluginUse, b: PluginUse): boolean {
  return a.plugin === b.plugin && a.file?.digest === b.file?.digest;
}

function sameUse(a: PluginUse, b: PluginUse): boolean {
  return sameContent({ ...a, at: "" }, { ...b, at: "" });
}
