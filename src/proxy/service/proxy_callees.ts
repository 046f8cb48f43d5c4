/**
 * The services that plugins may call: upstreams of this proxy, through the same pools as requests, and
 * listeners on this machine, in plaintext.
 *
 * @module
 */

import { type Address, type BindAddress, formatAddress } from "../../base/mod.ts";
import { DEFAULT_ROUTE } from "../../chain/mod.ts";
import { type Callee, type CalleeName, type Callees, failed } from "../../plugin/mod.ts";
import type { Snapshot, UpstreamPart } from "../../snapshot/mod.ts";
import type { UpstreamContext } from "../core/context.ts";
import { HttpPoolStats } from "../observe/http_stats.ts";
import { OutgoingCall } from "./outgoing_call.ts";
import { LocalPool, type RequestPool, type RequestRoute } from "../upstream/request_pools.ts";

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
      call: (request, onResponse) => {
        const call = new OutgoingCall(request, onResponse);
        // Without a pool the upstream was removed, and this generation is about to be replaced.
        const pool = this.#routeTo(id)?.poolFor(DEFAULT_ROUTE);
        if (pool) call.start(pool, context);
        else {onResponse(
            failed({ ...NO_ENDPOINT, reason: `the upstream ${authority} leads nowhere` }),
          );}
        return call;
      },
      close: () => {},
    };
  }

  #openLocal(address: Address, { http2 }: CalleeName): Callee {
    const context = this.#context;
    const where = formatAddress(address);
    const key = `${http2 ? "h2" : "h1"} ${where}`;
    const shared = this.#local.get(key) ?? { pool: this.#poolFor(address, http2), users: 0 };
    this.#local.set(key, shared);
    shared.users++;
    const pool: RequestPool = shared.pool;
    return {
      authority: address.kind === "tcp" ? where : "localhost",
      call: (request, onResponse) => {
        const call = new OutgoingCall(request, onResponse);
        call.start(pool, context);
        return call;
      },
      close: () => {
        if (--shared.users > 0) return;
        this.#local.delete(key);
        shared.pool.drain();
      },
    };
  }

  #poolFor(local: Address, http2: boolean): LocalPool {
    const http = { protocol: http2 ? "http2" : "http" } as const;
    const part = { local, http, localConnectTimeoutMs: CONNECT_TIMEOUT_MS };
    const context = this.#context;
    this.#stats ??= new HttpPoolStats(context.stats, STATS_LABELS);
    return new LocalPool({ part, context }, this.#stats);
  }
}

const STATS_LABELS = { direction: "outbound", listener: "plugin_calls" };
const NO_ENDPOINT = { code: "no_endpoint", wasSent: false, endpoint: null } as const;
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
