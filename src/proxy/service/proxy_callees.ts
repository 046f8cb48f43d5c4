/** Services that plugins may call: upstreams, and plaintext listeners on this machine. @module */

import { type Address, type BindAddress, formatAddress } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import type { Callee, CalleeName, Callees } from "../../plugin/mod.ts";
import type { Snapshot, UpstreamPart } from "../../snapshot/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { type HttpPoolStats, httpPoolStats } from "../observe/http_stats.ts";
import { LocalPool, type RequestPool, type RequestRoute } from "../upstream/request_pools.ts";
import { OutgoingCall } from "./outgoing_call.ts";

/** Connect timeout for services on this machine. */
const CONNECT_TIMEOUT_MS = 5_000;

interface SharedPool {
  readonly pool: LocalPool;
  users: number;
}

export class ProxyCallees {
  readonly #context: UpstreamContext;
  readonly #routeTo: (upstream: string) => RequestRoute | undefined;
  readonly #workers: number;
  /** Made with the first local pool. */
  #stats: HttpPoolStats | undefined;
  /** By address and HTTP version. Plugins, and their later generations, share the connections. */
  readonly #local = new Map<string, SharedPool>();

  constructor(context: UpstreamContext, { routeTo, workers }: {
    readonly routeTo: (upstream: string) => RequestRoute | undefined;
    readonly workers: number;
  }) {
    this.#context = context;
    this.#routeTo = routeTo;
    this.#workers = workers;
  }

  /** The services of `snapshot`, which is published before they are called. */
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
        const { name: authority = "", id = "" } = upstream ?? {};
        return this.#callee(authority, () => this.#routeTo(id)?.poolFor(DEFAULT_ROUTE));
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

  /** Without a pool the upstream was removed, and this generation is about to be replaced. */
  #callee(
    authority: string,
    poolOf: () => RequestPool | undefined,
    close: () => void = () => {},
  ): Callee {
    const context = this.#context;
    return {
      authority,
      call(request, onResponse) {
        const call = new OutgoingCall(request, onResponse);
        const pool = poolOf();
        if (pool) call.start(pool, context);
        else call.upstreamFailed("no_endpoint", `the upstream ${authority} leads nowhere`, "");
        return call;
      },
      endpoints: () => poolOf()?.endpoints() ?? NO_ENDPOINTS,
      close,
    };
  }

  #openLocal(address: Address, { http2 }: CalleeName): Callee {
    const where = formatAddress(address);
    const key = `${http2 ? "h2" : "h1"} ${where}`;
    const shared = this.#local.get(key) ?? { pool: this.#poolFor(address, http2), users: 0 };
    this.#local.set(key, shared);
    shared.users++;
    const { pool } = shared;
    return this.#callee(address.kind === "tcp" ? where : "localhost", () => pool, () => {
      if (--shared.users > 0) return;
      this.#local.delete(key);
      pool.drain();
    });
  }

  #poolFor(local: Address, http2: boolean): LocalPool {
    const http = { protocol: http2 ? "http2" : "http" } as const;
    const part = { local, http, localConnectTimeoutMs: CONNECT_TIMEOUT_MS };
    const context = this.#context;
    this.#stats ??= httpPoolStats(context.stats, STATS_LABELS);
    return new LocalPool({ part, context }, this.#stats);
  }
}

const NO_ENDPOINTS = { known: 0, usable: 0 };
const STATS_LABELS = { direction: "outbound", listener: "plugin_calls" };
const LOOPBACK = /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\]):(\d{1,5})$/;

/** An address of this machine; `undefined`: the target is none. */
function addressOf(target: string): Address | undefined {
  const path = /^unix:\/\/(\/.+)$/.exec(target)?.[1];
  if (path !== undefined) return { kind: "unix", path };
  const port = Number(LOOPBACK.exec(target)?.[1] ?? 0);
  if (port < 1 || port > 65_535) return undefined;
  const host = target.slice(0, target.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return { kind: "tcp", host: host === "localhost" ? "127.0.0.1" : host, port };
}

/** A call to one of the proxy's own listeners would call itself without end. */
function whyNoAddress(
  address: Address,
  { inbound, upstreams, edges, exposed }: Snapshot,
): string | undefined {
  const parts = [inbound, upstreams, edges, exposed].flatMap((all) =>
    Object.values<{ readonly bind: BindAddress | null }>(all)
  );
  const isOwn = parts.some(({ bind }) => bind && isSame(bind, address));
  return isOwn ? "it is a listener of this proxy" : undefined;
}

/** A listener on all addresses includes this one. */
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
