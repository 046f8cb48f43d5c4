/**
 * Listeners that choose by the name a client asks for, and clients that send the bytes a test gives
 * them.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import type { HandshakeOutcome, ServerTls, ServerTlsChooser } from "../../../src/net/mod.ts";
import type { ClientHello } from "../../../src/wire/mod.ts";
import { clientHello } from "./client_hello.ts";
import { ca, dial, engine, materialOf, quiet, SecureServer } from "./kit.ts";

export const NAMES = ["a.example", "b.example", "c.example"] as const;
export const leaves = new Map(
  NAMES.map((name) => [name as string, ca.issueLeaf({ service: "db" })]),
);
export const settings = new Map(
  [...leaves].map(([name, leaf]) => [name, engine.serverTls(materialOf(leaf))]),
);
export const byName = (hello: ClientHello): ServerTls | undefined =>
  settings.get(hello.serverName ?? "");

export function serve(choose: ServerTlsChooser["choose"]): Promise<SecureServer> {
  const started = SecureServer.start(undefined, async (accepted) => {
    const server = await started;
    accepted.secure({ kind: "chooser", choose }, (outcome) => server.settled(outcome));
  });
  return started;
}

/** As `serve`, but begun within the callback that hands the connection out. */
export async function serveAtOnce(choose: ServerTlsChooser["choose"]): Promise<SecureServer> {
  const server: SecureServer = await SecureServer.start(
    undefined,
    (accepted) =>
      accepted.secure({ kind: "chooser", choose }, (outcome) => server.settled(outcome)),
  );
  return server;
}

export function leafOf(peer: { readonly leaf: Uint8Array | undefined } | undefined): string {
  return Buffer.from(peer?.leaf ?? []).toString("hex");
}

export function hexOf(name: string): string {
  return leafOf({ leaf: leaves.get(name)?.certDer });
}

export function failureOf(outcome: HandshakeOutcome): string {
  return outcome.kind === "failed" ? outcome.reason : outcome.kind;
}

/** A known client still gets through, and every handshake so far was reported once. */
export async function stillServes(server: SecureServer, failures: number): Promise<void> {
  const client = await dial(server.port, { serverName: "a.example" }).side();
  client.write("hello");
  const side = await server.side();
  await side.received("hello");
  await quiet(5);
  assert.equal(server.outcomes.length, failures + 1);
}

export interface RawClient {
  readonly socket: Socket;
  /** All that came until it was closed. */
  readonly received: Promise<Buffer>;
  /** Whether it was reset so far. */
  broken(): boolean;
}

export function rawClient(port: number, bytes?: Uint8Array): RawClient {
  const socket = connect({ port, host: "127.0.0.1" });
  let broken = false;
  socket.on("error", () => broken = true);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  if (bytes) socket.write(bytes);
  const received = new Promise<Buffer>((resolve) =>
    socket.once("close", () => resolve(Buffer.concat(chunks)))
  );
  return { socket, received, broken: () => broken };
}

export const hello = (name: string): Uint8Array => clientHello({ names: [name] });
