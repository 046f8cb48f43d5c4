/**
 * What the servers here have in common: limits of their requests, how they begin to listen and end.
 *
 * @module
 */

import type { Server } from "node:http";
import { formatAddress, type Log, messageOf } from "../../base/mod.ts";

export interface Listening {
  readonly address: { readonly kind: "tcp"; readonly host: string; readonly port: number };
  /** Ends at once, open requests included. */
  close(): Promise<void>;
}

export const SERVER_LIMITS = {
  maxHeaderSize: 8_192,
  headersTimeout: 10_000,
  requestTimeout: 15_000,
  keepAliveTimeout: 30_000,
  connectionsCheckingInterval: 2_000,
} as const;

/** `name`: in the log. Fails with the system's error, see {@link codeOf} and {@link reasonOf}. */
export async function listenOn(
  server: Server,
  { host, port, name }: { readonly host: string; readonly port: number; readonly name: string },
  log: Log,
): Promise<Listening> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, exclusive: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
  server.on("error", (error) => log.warn(name, { error: messageOf(error) }));
  const bound = server.address();
  const address = {
    kind: "tcp",
    host,
    port: typeof bound === "object" && bound ? bound.port : port,
  } as const;
  log.info(`${name} listening`, { address: formatAddress(address) });
  return {
    address,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

export function reasonOf(error: unknown): string {
  switch (codeOf(error)) {
    case "EADDRINUSE":
      return "the address is in use";
    case "EADDRNOTAVAIL":
      return "this machine does not have that address";
    case "EACCES":
      return "no permission for that port";
    default:
      return messageOf(error);
  }
}
