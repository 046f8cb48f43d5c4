/**
 * Helpers of the engines' contract: connections that record their events, and pairs of them over
 * loopback.
 *
 * @module
 */

import assert from "node:assert/strict";
import type { BindAddress } from "../../../src/base/mod.ts";
import type { Authority, IssuedLeaf } from "../../kit/certs/authority.ts";
import {
  type AcceptedConnection,
  type DialHandler,
  type HandshakeOutcome,
  type Listener,
  type PresentedPeer,
  runtimeEngine,
  type ServerTls,
  type Ticket,
  type TlsMaterial,
} from "../../../src/net/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { Side, Waiting } from "./side.ts";

export { quiet, Side, Waiting } from "./side.ts";

export const engine = runtimeEngine();
/** Deno's TLS resumes no session that we could tell it to. */
export const resumes = engine.name.startsWith("bun");

export const LOOPBACK = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;

export const ca: Authority = createAuthority();

export function materialOf(
  leaf: IssuedLeaf,
  options: Partial<TlsMaterial> & { readonly roots?: readonly Authority[] } = {},
): TlsMaterial {
  const { roots = [ca], ...rest } = options;
  return {
    certPem: leaf.certPem,
    keyPem: leaf.keyPem,
    rootPems: roots.map((root) => root.rootPem),
    peerCheck: "checked",
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
    ...rest,
  };
}

export const dbMaterial: TlsMaterial = materialOf(ca.issueLeaf({ service: "db" }));
export const webMaterial: TlsMaterial = materialOf(ca.issueLeaf({ service: "web" }));
export const SERVER_NAME = "db.default.dc1.internal.11111111-2222-3333-4444-555555555555.consul";

/** A TLS listener that shakes hands with every client and remembers how each handshake ended. */
export class SecureServer extends Waiting implements AsyncDisposable {
  readonly sides: Side[] = [];
  readonly outcomes: HandshakeOutcome[] = [];
  readonly accepted: AcceptedConnection[] = [];
  #listener: Listener | undefined;

  static async start(
    material: TlsMaterial | undefined = dbMaterial,
    secure?: (accepted: AcceptedConnection, tls: ServerTls) => void,
    address: BindAddress = LOOPBACK,
  ): Promise<SecureServer> {
    const server = new SecureServer();
    const tls = engine.serverTls(material);
    server.#listener = await engine.listenSecure(
      { address, reusePort: false },
      (accepted) => {
        server.accepted.push(accepted);
        if (secure) secure(accepted, tls);
        else accepted.secure(tls, (outcome) => server.settled(outcome));
        server.woken();
      },
    );
    return server;
  }

  settled(outcome: HandshakeOutcome): void {
    this.outcomes.push(outcome);
    if (outcome.kind === "secured") this.sides.push(new Side(outcome.connection, outcome.peer));
    this.woken();
  }

  get listener(): Listener {
    assert.ok(this.#listener);
    return this.#listener;
  }

  get port(): number {
    return portOf(this.listener);
  }

  /** The `index`-th handshake's outcome. */
  async outcome(index = 0): Promise<HandshakeOutcome> {
    await this.until(() => this.outcomes.length > index, () => `no outcome ${index}`);
    const outcome = this.outcomes[index];
    assert.ok(outcome);
    return outcome;
  }

  async side(index = 0): Promise<Side> {
    await this.until(() => this.sides.length > index, () => reasonsOf(this.outcomes));
    const side = this.sides[index];
    assert.ok(side);
    return side;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#listener?.close();
    for (const { connection } of this.sides) connection.reset();
    for (const accepted of this.accepted) accepted.reset();
    return Promise.resolve();
  }
}

function reasonsOf(outcomes: readonly HandshakeOutcome[]): string {
  return outcomes.map((outcome) => outcome.kind === "failed" ? outcome.reason : outcome.kind)
    .join();
}

export function portOf(listener: Listener): number {
  assert.equal(listener.address.kind, "tcp");
  return listener.address.kind === "tcp" ? listener.address.port : 0;
}

type DialResult =
  | { readonly kind: "connected"; readonly side: Side; readonly peer: PresentedPeer | undefined }
  | { readonly kind: "failed"; readonly stage: "connect" | "handshake"; readonly reason: string };

export interface Dialled {
  readonly results: DialResult[];
  readonly tickets: Ticket[];
  readonly waiting: Waiting;
  cancel(): void;
  result(): Promise<DialResult>;
  side(): Promise<Side>;
}

/** Dials and remembers the result and all events; `material: null` is plain. */
export function dial(
  port: number,
  options: {
    readonly material?: TlsMaterial | null;
    readonly ticket?: Ticket | undefined;
    readonly serverName?: string;
    readonly path?: string;
  } = {},
): Dialled {
  const { material = webMaterial, ticket, serverName = SERVER_NAME, path } = options;
  const results: DialResult[] = [];
  const tickets: Ticket[] = [];
  const waiting = new Waiting();
  const handler: DialHandler = {
    onConnected(connection, peer) {
      results.push({ kind: "connected", side: new Side(connection, peer), peer });
      waiting.woken();
    },
    onFailed(stage, reason) {
      results.push({ kind: "failed", stage, reason });
      waiting.woken();
    },
    onTicket(fresh) {
      tickets.push(fresh);
      waiting.woken();
    },
  };
  const running = engine.dial({
    address: path === undefined ? { ...LOOPBACK, port } : { kind: "unix", path },
    ...(material && { tls: engine.clientTls(material, { serverName }) }),
    ticket,
  }, handler);
  const result = async () => {
    await waiting.until(() => results.length > 0, () => "the dial reported nothing");
    assert.equal(results.length, 1);
    return results[0] as DialResult;
  };
  return {
    results,
    tickets,
    waiting,
    cancel: () => running.cancel(),
    result,
    async side() {
      const outcome = await result();
      if (outcome.kind === "failed") assert.fail(`${outcome.stage}: ${outcome.reason}`);
      return outcome.side;
    },
  };
}

export interface Pair extends AsyncDisposable {
  readonly client: Side;
  readonly server: Side;
}

/** Two ends of one connection. */
export async function openPair(kind: "plain" | "tls"): Promise<Pair> {
  if (kind === "tls") {
    const server = await SecureServer.start();
    const client = await dial(server.port).side();
    const side = await server.side();
    return pairOf(client, side, () => server[Symbol.asyncDispose]());
  }
  const waiting = new Waiting();
  let side: Side | undefined;
  const listener = await engine.listen({ address: LOOPBACK, reusePort: false }, (connection) => {
    side = new Side(connection);
    waiting.woken();
  });
  const client = await dial(portOf(listener), { material: null }).side();
  await waiting.until(() => side !== undefined, () => "nothing was accepted");
  assert.ok(side);
  return pairOf(client, side, () => listener.close());
}

function pairOf(client: Side, server: Side, close: () => unknown): Pair {
  return {
    client,
    server,
    async [Symbol.asyncDispose]() {
      client.connection.reset();
      server.connection.reset();
      await close();
    },
  };
}
