/** The admin server on its socket: at the given address, or the first free port from 19000. @module */

import { formatAddress, type Log, ProxyError } from "../../base/mod.ts";
import type { InheritedSockets } from "../../net/mod.ts";
import { createAdmin, isProbe } from "../admin.ts";
import type { AdminAddress } from "../ask_admin.ts";
import type { AdminView } from "../view.ts";
import { EVENT_STREAM_TYPE } from "./event_stream.ts";
import { machineNames, tokenFault } from "./guard.ts";
import {
  codeOf,
  type Listening,
  reasonOf,
  type ServedRequest,
  startHttpServer,
} from "./http_server.ts";

export type AdminBind =
  | { readonly kind: "default" }
  | { readonly kind: "address"; readonly host: string; readonly port: number };

export interface AdminServerOptions {
  readonly bind: AdminBind;
  /** Clients with this token may send POST from any address; clients without it may not. */
  readonly tokenFile?: string | undefined;
  /** Names the proxy that listens on a configured address in use. Never rejects. */
  readonly holderOf?: (place: AdminAddress) => Promise<string | undefined>;
  /** Sockets of the process before. */
  readonly inherited?: InheritedSockets | undefined;
}

const DEFAULT_HOST = "127.0.0.1";
/** Default ports; the first free one is bound. */
export const ADMIN_PORTS: readonly number[] = Array.from({ length: 101 }, (_, at) => 19_000 + at);

/** Throws `listen_failed` when a configured address, or all default ports, cannot be bound. */
export async function startAdmin(
  view: AdminView,
  { bind, tokenFile, holderOf, inherited }: AdminServerOptions,
  log: Log,
): Promise<Listening> {
  const descriptorOf = (place: AdminAddress) =>
    inherited?.take(formatAddress({ kind: "tcp", ...place }))[0];
  if (bind.kind === "address") {
    try {
      return await started(view, { ...bind, tokenFile, descriptor: descriptorOf(bind) }, log);
    } catch (error) {
      const holder = codeOf(error) === "EADDRINUSE" && await holderOf?.(bind);
      const address = formatAddress({ ...bind, kind: "tcp" });
      throw failed(
        `-admin-bind ${address}: ${reasonOf(error)}${holder ? ` (${holder})` : ""}; give another ` +
          "address, or off",
        error,
      );
    }
  }
  for (const port of ADMIN_PORTS) {
    const descriptor = descriptorOf({ host: DEFAULT_HOST, port });
    if (descriptor === undefined) continue;
    return await started(view, { host: DEFAULT_HOST, port, tokenFile, descriptor }, log);
  }
  for (const port of ADMIN_PORTS) {
    try {
      return await started(view, { host: DEFAULT_HOST, port, tokenFile }, log);
    } catch (error) {
      if (codeOf(error) === "EADDRINUSE") continue;
      const reason = `${reasonOf(error)}; give -admin-bind an address, or off`;
      throw failed(`${DEFAULT_HOST}:${port} for the admin server: ${reason}`, error);
    }
  }
  throw failed(
    `${DEFAULT_HOST} for the admin server: ports ${ADMIN_PORTS.at(0)} to ${ADMIN_PORTS.at(-1)} ` +
      "are in use; give -admin-bind an address, or off",
  );
}

function failed(what: string, cause?: unknown): ProxyError {
  return new ProxyError("listen_failed", `Cannot listen on ${what}`, { cause });
}

function started(
  view: AdminView,
  { host, port, tokenFile, descriptor }: {
    readonly host: string;
    readonly port: number;
    readonly tokenFile: string | undefined;
    readonly descriptor?: number | undefined;
  },
  log: Log,
): Promise<Listening> {
  const app = createAdmin(view, {
    boundHost: host,
    names: machineNames(),
    ...(tokenFile !== undefined && {
      tokenFault: (authorization) => tokenFault(tokenFile, authorization),
    }),
  });
  const answer = async ({ method, target, headers, peer }: ServedRequest) => {
    const url = `http://localhost${target.startsWith("/") ? target : "/*"}`;
    const own = headers as Readonly<Record<string, string>>;
    const reply = await app.fetch(new Request(url, { method, headers: own }), { peer });
    const { status } = reply;
    const isStream = reply.headers.get("content-type") === EVENT_STREAM_TYPE;
    const body = isStream && reply.body || new Uint8Array(await reply.arrayBuffer());
    return { status, headers: Object.fromEntries(reply.headers), body };
  };
  const { clock } = view;
  const name = "admin server";
  return startHttpServer({ host, port, descriptor, name, clock, isProbe, answer }, log);
}
