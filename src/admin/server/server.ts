/**
 * The admin server on its socket. By default the port is a wish: several sidecars run on one host and
 * none of them needs a flag for it. An address that was asked for is taken or is an error.
 *
 * @module
 */

import { createAdaptorServer } from "@hono/node-server";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { formatAddress, type Log, ProxyError } from "../../base/mod.ts";
import { createAdmin, isProbe } from "../admin.ts";
import type { AdminAddress } from "../ask_admin.ts";
import { tokenFault } from "./admin_token.ts";
import { codeOf, type Listening, listenOn, reasonOf, SERVER_LIMITS } from "./listening.ts";
import { machineNames } from "./machine_names.ts";
import { AdminConnectionLimit } from "./connection_limit.ts";
import type { AdminView } from "../view.ts";

export type AdminBind =
  | { readonly kind: "default" }
  | { readonly kind: "address"; readonly host: string; readonly port: number };

export interface AdminServerOptions {
  readonly bind: AdminBind;
  /** Who shows what is in it may change something from elsewhere; who does not may not from here. */
  readonly tokenFile?: string | undefined;
  /** Which proxy has an address that was asked for and is taken, in words. Never rejects. */
  readonly whose?: (place: AdminAddress) => Promise<string | undefined>;
}

const DEFAULT_HOST = "127.0.0.1";
/** The first that is free is taken where no address was asked for. */
export const ADMIN_PORTS: readonly number[] = Array.from({ length: 101 }, (_, at) => 19_000 + at);

/** Throws `listen_failed` when an address that was given cannot be had. */
export async function startAdmin(
  view: AdminView,
  options: AdminServerOptions,
  log: Log,
): Promise<Listening> {
  const { bind, tokenFile, whose } = options;
  if (bind.kind === "address") {
    try {
      return await started(view, { ...bind, tokenFile }, log);
    } catch (error) {
      const holder = codeOf(error) === "EADDRINUSE" && await whose?.(bind);
      throw new ProxyError(
        "listen_failed",
        `Cannot listen on -admin-bind ${formatAddress({ ...bind, kind: "tcp" })}: ` +
          `${reasonOf(error)}${holder ? ` (${holder})` : ""}; give another address, or off`,
        { cause: error },
      );
    }
  }
  for (const port of ADMIN_PORTS) {
    try {
      return await started(view, { host: DEFAULT_HOST, port, tokenFile }, log);
    } catch (error) {
      if (codeOf(error) === "EADDRINUSE") continue;
      throw new ProxyError(
        "listen_failed",
        `Cannot listen on ${DEFAULT_HOST}:${port} for the admin server: ${reasonOf(error)}; give ` +
          "-admin-bind an address, or off",
        { cause: error },
      );
    }
  }
  throw new ProxyError(
    "listen_failed",
    `Cannot listen on ${DEFAULT_HOST} for the admin server: ports ${ADMIN_PORTS.at(0)} to ` +
      `${ADMIN_PORTS.at(-1)} are in use; give -admin-bind an address, or off`,
  );
}

async function started(
  view: AdminView,
  { host, port, tokenFile }: {
    readonly host: string;
    readonly port: number;
    readonly tokenFile: string | undefined;
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
  const places = new AdminConnectionLimit(view.clock);
  const server = createAdaptorServer({
    fetch: (request: Request, env: unknown) => {
      const { incoming, outgoing } = env as Exchange;
      const { socket } = incoming;
      if (places.serve(socket, outgoing, isProbe(incoming.url ?? ""))) {
        return app.fetch(request, { peer: socket.remoteAddress ?? "" });
      }
      const text = "Cannot answer now: too many requests are being answered\n";
      return new Response(text, { status: 503, headers: { connection: "close" } });
    },
    createServer,
    serverOptions: SERVER_LIMITS,
    // The data path's process keeps its own Request and Response.
    overrideGlobalObjects: false,
  }) as Server;
  server.on("connection", (socket) => places.enter(socket));
  return await listenOn(server, { host, port, name: "admin server" }, log);
}

interface Exchange {
  readonly incoming: IncomingMessage;
  readonly outgoing: ServerResponse;
}
