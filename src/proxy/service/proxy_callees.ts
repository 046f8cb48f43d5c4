/**
 * Whom plugins may ask: upstreams of this proxy, by the ways that requests take, and who listens on this
 * machine, in the clear.
 *
 * @module
 */

import { type Address, type BindAddress, formatAddress } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import { type Callee, type CalleeName, type Callees, failed } from "../../plugin/mod.ts";
import type { Snapshot, UpstreamPart } from "../../snapshot/mod.ts";
import type { Context } from "../core/context.ts";
import { HttpPoolStats } from "../observe/http_stats.ts";
import { OutgoingCall } from "./outgoing_call.ts";
import { LocalPool, type RequestPool, type RequestRoute } from "../upstream/request_pools.ts";

/** Until a connection to somebody on this machine is up. */
const CONNECT_TIMEOUT_MS = 5_000;

interface Kept {
  readonly ways: LocalPool;
  users: number;
}

export class ProxyCallees {
  readonly #context: Context;
  readonly #routeTo: (upstream: string) => RequestRoute | undefined;
  readonly #workers: number;
  /** Made when there is something to count. */
  #stats: HttpPoolStats | undefined;
  /** By address and version. Several plugins, and the generations after them, share the connections. */
  readonly #local = new Map<string, Kept>();

  constructor(context: Context, { routeTo, workers }: {
    readonly routeTo: (upstream: string) => RequestRoute | undefined;
    readonly workers: number;
  }) {
    this.#context = context;
    this.#routeTo = routeTo;
    this.#workers = workers;
  }

  /** By `snapshot`, which is in force once they are asked. */
  of(snapshot: Snapshot): Callees {
    return {
      whyNot: ({ target, http2 }) => {
        const address = addressOf(target);
        if (address) return whyNoAddress(address, snapshot);
        return this.#whyNoUpstream(upstreamsOf(target, snapshot), http2);
      },
      open: (name) => {
        const address = addressOf(name.target);
        if (address) return this.#openLocal(address, name);
        const [upstream] = upstreamsOf(name.target, snapshot);
        return this.#openUpstream(upstream?.name ?? "", upstream?.id ?? "");
      },
    };
  }

  #whyNoUpstream(parts: readonly UpstreamPart[], http2: boolean): string | undefined {
    const [part] = parts;
    if (!part) {
      return "there is no upstream of that name, and it is no address of this machine such as " +
        "127.0.0.1:9191, [::1]:9191 or unix:///run/x.sock";
    }
    if (parts.length > 1) {
      return `several upstreams have that name: ${parts.map(({ id }) => id).join(", ")}`;
    }
    if (!part.http) return "the upstream carries bytes; its protocol has to be http, http2 or grpc";
    if (http2 && part.http.protocol === "http") {
      return "the upstream speaks HTTP/1.1; its protocol has to be http2 or grpc";
    }
    if (part.bind?.kind === "unix" && this.#workers > 1) {
      return "the upstream listens on a unix socket, which one worker alone can serve";
    }
    return undefined;
  }

  #openUpstream(authority: string, id: string): Callee {
    const context = this.#context;
    return {
      authority,
      ask: (question, told) => {
        const call = new OutgoingCall(question, told);
        // Where nobody is declared any more, the plugins that ask are about to be others.
        const ways = this.#routeTo(id)?.poolFor(DEFAULT_ROUTE);
        if (ways) call.start(ways, context);
        else told(failed({ ...NOBODY, reason: `the upstream ${authority} leads nowhere` }));
        return call;
      },
      close: () => {},
    };
  }

  #openLocal(address: Address, { http2 }: CalleeName): Callee {
    const context = this.#context;
    const where = formatAddress(address);
    const key = `${http2 ? "h2" : "h1"} ${where}`;
    const kept = this.#local.get(key) ?? { ways: this.#waysTo(address, http2), users: 0 };
    this.#local.set(key, kept);
    kept.users++;
    const ways: RequestPool = kept.ways;
    return {
      authority: address.kind === "tcp" ? where : "localhost",
      ask: (question, told) => {
        const call = new OutgoingCall(question, told);
        call.start(ways, context);
        return call;
      },
      close: () => {
        if (--kept.users > 0) return;
        this.#local.delete(key);
        kept.ways.drain();
      },
    };
  }

  #waysTo(local: Address, http2: boolean): LocalPool {
    const http = { protocol: http2 ? "http2" : "http" } as const;
    const part = { local, http, localConnectTimeoutMs: CONNECT_TIMEOUT_MS };
    const context = this.#context;
    this.#stats ??= new HttpPoolStats(context.stats, STATS_LABELS);
    return new LocalPool({ part, context }, this.#stats);
  }
}

const STATS_LABELS = { direction: "outbound", listener: "plugin_calls" };
const NOBODY = { code: "no_endpoint", wasSent: false, endpoint: null } as const;
const LOOPBACK = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]):(\d{1,5})$/;

/** Of this machine; `undefined`: it is none, or not written as one. */
function addressOf(target: string): Address | undefined {
  const path = /^unix:\/\/(\/.+)$/.exec(target)?.[1];
  if (path !== undefined) return { kind: "unix", path };
  const port = Number(LOOPBACK.exec(target)?.[1] ?? 0);
  if (port < 1 || port > 65_535) return undefined;
  const host = target.slice(0, target.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return { kind: "tcp", host: host === "localhost" ? "127.0.0.1" : host, port };
}

/** Whoever calls us to answer a call would be asked for ever. */
function whyNoAddress(address: Address, snapshot: Snapshot): string | undefined {
  const { inbound, upstreams, edges, exposed } = snapshot;
  for (const part of [inbound, upstreams, edges, exposed].flatMap((parts) => [...values(parts)])) {
    if (part && isSame(part, address)) return "it is a listener of this proxy";
  }
  return undefined;
}

function values(
  parts: Readonly<Record<string, { readonly bind: BindAddress | null }>>,
): (BindAddress | null)[] {
  return Object.values(parts).map(({ bind }) => bind);
}

/** Whoever listens on all addresses of the machine listens on this one, too. */
function isSame(bind: BindAddress, address: Address): boolean {
  if (bind.kind === "unix" || address.kind === "unix") {
    return bind.kind === "unix" && address.kind === "unix" && bind.path === address.path;
  }
  const { host } = bind;
  const isReached = host === address.host || host === "0.0.0.0" || host === "::" ||
    host === "localhost";
  return isReached && bind.port === address.port;
}

function upstreamsOf(target: string, { upstreams }: Snapshot): readonly UpstreamPart[] {
  const exact = upstreams[target];
  return exact ? [exact] : Object.values(upstreams).filter(({ name }) => name === target);
}
