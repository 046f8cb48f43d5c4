/** Sends counters' increases and gauges to StatsD or DogStatsD, as datagrams. @module */

import { type AdminView, type SinkStat, sinkStats } from "../../admin/mod.ts";
import { BUCKETS_MS, type Log, messageOf, ProxyError, type Timer } from "../../base/mod.ts";
import { openUdpSender, sendUnixDatagram } from "../../net/mod.ts";
import { parsePort } from "../flags/read_values.ts";

/** Fits a datagram on any network. */
const DATAGRAM_LIMIT_BYTES = 1_400;
const PREFIX = "envoy.";

export interface StatsdSink {
  readonly key: "envoy_statsd_url" | "envoy_dogstatsd_url";
  /** As written: `udp://10.0.0.1:8125`, `unix:///run/dsd.sock`, `$STATSD_URL`. */
  readonly url: string;
  readonly intervalMs: number;
}

interface StatsdDeps {
  readonly view: AdminView;
  readonly log: Log;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Sends until it is closed. Throws `config_invalid` for an address that cannot be used. */
export function createStatsdSink(sink: StatsdSink, deps: StatsdDeps): Statsd {
  const { env, log } = deps;
  const sender = createSender(readAddress(sink, env), (fault) => {
    log.warn("metrics are not sent", { key: sink.key, error: fault });
  });
  return startStatsd(sink, deps, sender);
}

type Sender = { send(datagram: string): void; close(): void };

interface Statsd {
  /** One at a time. Never rejects. */
  flush(): Promise<void>;
  close(): void;
}

export function startStatsd(
  { key, intervalMs }: StatsdSink,
  { view, log }: Pick<StatsdDeps, "view" | "log">,
  sender: Sender,
): Statsd {
  const isTagged = key === "envoy_dogstatsd_url";
  /** Values of counters and histograms at the last time. */
  let sent = new Map<string, number>();
  let timer: Timer | undefined;
  let flushing: Promise<void> | undefined;
  let closed = false;
  const send = async () => {
    const stats = await sinkStats(view);
    if (closed) return;
    const next = new Map<string, number>();
    /** The increase since the last time; a worker that was replaced counts from zero. */
    const since = (key: string, value: number): number => {
      const earlier = sent.get(key) ?? 0;
      next.set(key, value);
      return value >= earlier ? value - earlier : value;
    };
    let datagram = "";
    const add = (stat: SinkStat, text: string) => {
      const name = clean(PREFIX + (isTagged ? stat.tagged : stat.name));
      const line = `${name}:${text}${isTagged ? `|#${tagsText(stat.tags)}` : ""}`;
      if (datagram !== "" && datagram.length + line.length >= DATAGRAM_LIMIT_BYTES) {
        sender.send(datagram);
        datagram = "";
      }
      datagram = datagram === "" ? line : `${datagram}\n${line}`;
    };
    for (const stat of stats) {
      const { name, kind, value, counts } = stat;
      for (const [bucket, count] of counts?.entries() ?? []) {
        const more = since(`${name} ${bucket}`, count);
        // All values in a bucket get its upper bound; those above the last bucket get the last bound.
        const ms = BUCKETS_MS[bucket] ?? BUCKETS_MS.at(-1) ?? 0;
        if (more > 0) add(stat, `${ms}|ms${more > 1 ? `|@${1 / more}` : ""}`);
      }
      if (counts) continue;
      if (kind === "gauge") {
        add(stat, `${value}|g`);
        continue;
      }
      const more = since(name, value);
      if (more > 0) add(stat, `${more}|c`);
    }
    if (datagram !== "") sender.send(datagram);
    sent = next;
  };
  const flush = () =>
    flushing ??= send().catch((error) => {
      log.debug("metrics could not be read", { error: messageOf(error) });
    }).finally(() => flushing = undefined);
  const wait = () => {
    timer = view.clock.after(intervalMs, () => void flush().then(() => closed || wait()));
  };
  wait();
  return {
    flush,
    close() {
      closed = true;
      timer?.cancel();
      sender.close();
    },
  };
}

/** `:`, `|` and line breaks are syntax of the protocol. */
function clean(text: string): string {
  return text.replace(/[:|@\s]/g, "_");
}

function tagsText(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${clean(name)}:${value.replace(/[,|\s]/g, "_")}`)
    .join(",");
}

type StatsdAddress =
  | { readonly kind: "udp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** Consul's forms: a whole variable, or `$HOST_IP` and `${HOST_IP}` inside, and no other. */
export function readAddress(
  { key, url: written }: Pick<StatsdSink, "key" | "url">,
  env: StatsdDeps["env"],
): StatsdAddress {
  const isVariable = /^\$[A-Za-z_]\w*$/.test(written);
  const text = isVariable
    ? env[written.slice(1)] ?? ""
    : written.replace(/\$(?:HOST_IP\b|\{HOST_IP\})/g, () => env["HOST_IP"] ?? "");
  // The value of a variable is not shown: it may be secret.
  const fail = (fact: string) =>
    new ProxyError(
      "config_invalid",
      `Cannot use ${key} ${JSON.stringify(written.slice(0, 80))}: ${fact}; want udp://host:port ` +
        "or unix:///path",
    );
  if (text === "") throw fail("the variable is not set");
  const unix = /^unix:\/\/(\/.+)$/.exec(text)?.[1];
  if (unix !== undefined && key === "envoy_dogstatsd_url") return { kind: "unix", path: unix };
  const [, bracketed, plain, portText = ""] =
    /^udp:\/\/(?:\[([0-9a-fA-F:.]+)\]|([^:/@\s${}]+)):(\d+)\/?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  const port = parsePort(portText, 1);
  if (host !== undefined && port !== undefined) return { kind: "udp", host, port };
  throw fail(unix === undefined ? "it is no such address" : "StatsD is sent by UDP only");
}

/** `onFault`: called for the first fault, and for the first one after a datagram was sent. */
function createSender(address: StatsdAddress, onFault: (fault: string) => void): Sender {
  let wasFault = false;
  const report = (fault: string | undefined) => {
    if (fault !== undefined && !wasFault) onFault(fault);
    wasFault = fault !== undefined;
  };
  if (address.kind === "unix") {
    return {
      send(datagram) {
        const result = sendUnixDatagram(address.path, datagram);
        if (result === "sent") return report(undefined);
        const isLacking = result === "unsupported";
        const why = "this runtime cannot send to unix sockets; use udp://";
        report(isLacking ? why : `nobody takes datagrams at ${address.path}`);
      },
      close() {},
    };
  }
  return openUdpSender(address, report);
}
