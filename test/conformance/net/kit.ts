/**
 * What the contract of the engines needs: connections that remember what they were told, and pairs of
 * them over loopback.
 *
 * @module
 */

import assert from "node:assert/strict";
import { systemClock } from "../../../src/base/mod.ts";
import type { Authority, IssuedLeaf } from "../../../src/identity/mod.ts";
import {
  type AcceptedConnection,
  type Connection,
  type ConnectionEvents,
  type DialHandler,
  type HandshakeOutcome,
  type Listener,
  type PresentedPeer,
  runtimeEngine,
  type ServerTls,
  type Ticket,
  type TlsMaterial,
} from "../../../src/net/mod.ts";
import { createAuthority } from "../../kit/certificates.ts";

export const engine = runtimeEngine();
/** Deno's TLS resumes no session that we could tell it to. */
export const resumes = engine.name.startsWith("bun");

const PATIENCE_MS = 10_000;
export const LOOPBACK = { kind: "tcp", host: "127.0.0.1", port: 0 } as const;

/** Something to wait on: woken at each event, fails with what was seen so far. */
export class Waiting {
  #wake: Array<() => void> = [];

  woken(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async until(done: () => boolean, what: () => string): Promise<void> {
    let late = false;
    const timer = systemClock.after(PATIENCE_MS, () => {
      late = true;
      this.woken();
    });
    while (!done()) {
      if (late) assert.fail(`waited in vain: ${what()}`);
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
    timer.cancel();
  }
}

/** One end of a connection, and everything it was told. */
export class Side extends Waiting implements ConnectionEvents {
  readonly connection: Connection;
  readonly peer: PresentedPeer | undefined;
  readonly chunks: Uint8Array[] = [];
  /** `data` (once per run of chunks), `end`, `drain`, `close` or `reset`. */
  readonly told: string[] = [];
  size = 0;
  onChunk: ((chunk: Uint8Array) => void) | undefined;

  constructor(connection: Connection, peer?: PresentedPeer) {
    super();
    this.connection = connection;
    this.peer = peer;
    connection.events = this;
  }

  onData(chunk: Uint8Array): void {
    if (this.told.at(-1) !== "data") this.told.push("data");
    this.size += chunk.length;
    if (this.onChunk) this.onChunk(chunk);
    else this.chunks.push(chunk);
    this.woken();
  }
  onEnd(): void {
    this.#tell("end");
  }
  onDrain(): void {
    this.#tell("drain");
  }
  onClose(reset: boolean): void {
    this.#tell(reset ? "reset" : "close");
  }
  #tell(event: string): void {
    this.told.push(event);
    this.woken();
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString();
  }

  write(text: string): boolean {
    return this.connection.write(Buffer.from(text));
  }

  received(text: string): Promise<void> {
    return this.until(() => this.text === text, () => `"${this.text}" is not "${text}"`);
  }

  event(name: "end" | "drain" | "close" | "reset"): Promise<void> {
    const gone = () => this.told.includes("close") || this.told.includes("reset");
    return this.until(
      () => this.told.includes(name) || gone(),
      () => `told ${this.told.join()}, not ${name}`,
    ).then(() => assert.ok(this.told.includes(name), `told ${this.told.join()}, not ${name}`));
  }

  /** Gone, however. */
  over(): Promise<void> {
    const last = () => this.told.at(-1);
    return this.until(
      () => last() === "close" || last() === "reset",
      () => `told ${this.told.join()}, still open`,
    );
  }
}

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
    minVersion: "TLSv1.2",
    maxVersion: "TLSv1.3",
    cipherSuites: [],
    ...rest,
  };
}

export const dbMaterial: TlsMaterial = materialOf(ca.issueLeaf({ service: "db" }));
export const webMaterial: TlsMaterial = materialOf(ca.issueLeaf({ service: "web" }));
export const SERVER_NAME = "db.default.dc1.internal.11111111-2222-3333-4444-555555555555.consul";

/** A TLS listener that shakes hands with everybody and remembers how each one ended. */
export class SecureServer extends Waiting implements AsyncDisposable {
  readonly sides: Side[] = [];
  readonly outcomes: HandshakeOutcome[] = [];
  readonly accepted: AcceptedConnection[] = [];
  #listener: Listener | undefined;

  static async start(
    material: TlsMaterial | undefined = dbMaterial,
    secure?: (accepted: AcceptedConnection, tls: ServerTls) => void,
  ): Promise<SecureServer> {
    const server = new SecureServer();
    const tls = engine.serverTls(material);
    server.#listener = await engine.listenSecure(
      { address: LOOPBACK, reusePort: false },
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

export function reasonsOf(outcomes: readonly HandshakeOutcome[]): string {
  return outcomes.map((outcome) => outcome.kind === "failed" ? outcome.reason : outcome.kind)
    .join();
}

export function portOf(listener: Listener): number {
  assert.equal(listener.address.kind, "tcp");
  return listener.address.kind === "tcp" ? listener.address.port : 0;
}

export type DialResult =
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

/** Dials and remembers everything that came of it; `material: null` is plain. */
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
    await waiting.until(() => results.length > 0, () => "the dial told nothing");
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

/** Some turns of the event loop, for what must not happen: there is no event to wait for. */
export async function quiet(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await new Promise<void>((resolve) => systemClock.after(1, resolve));
  }
}
