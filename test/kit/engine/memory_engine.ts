/**
 * An engine without sockets: the test plays the callers of a listener and the servers that are dialled,
 * one step at a time, so that a data path can be seen between any two of them.
 *
 * @module
 */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type {
  AcceptedConnection,
  Connection,
  DialHandler,
  DialOptions,
  Engine,
  HandshakeOutcome,
  Listener,
  ListenOptions,
  PrefaceOutcome,
  PrefaceReader,
  PresentedPeer,
  Ticket,
} from "../../../src/net/mod.ts";
import { type MemoryConnection, memoryPair } from "./memory_pair.ts";
import { FakeTlsEngine } from "./fake_tls_engine.ts";

/** The other end of a connection: its events, and whether it is over. */
export class End {
  readonly connection: MemoryConnection;
  received = "";
  over: "no" | "end" | "reset" = "no";
  readonly #theirs: MemoryConnection;

  /** `theirs`: the end that the data path has. */
  constructor(connection: MemoryConnection, theirs: MemoryConnection) {
    this.connection = connection;
    this.#theirs = theirs;
    connection.events = {
      onData: (chunk) => void (this.received += new TextDecoder().decode(chunk)),
      onEnd: () => void (this.over = "end"),
      onDrain: () => {},
      onClose: (reset) => {
        if (reset) this.over = "reset";
      },
    };
  }

  /** The data path does not take more now. */
  get heldBack(): boolean {
    return this.#theirs.paused;
  }

  send(text: string): void {
    this.connection.write(new TextEncoder().encode(text));
  }
}

/** A client that must shake hands. */
export class SecureCaller implements AcceptedConnection {
  readonly remote: string;
  readonly local = "127.0.0.1:20000";
  #handler: ((outcome: HandshakeOutcome) => void) | undefined;
  #preface: { read: PrefaceReader; handler: (outcome: PrefaceOutcome) => void } | undefined;
  /** Bytes that no preface has used. */
  #early = new Uint8Array();
  /** Broken by the data path. */
  gone = false;

  constructor(remote: string) {
    this.remote = remote;
  }

  preface(read: PrefaceReader, handler: (outcome: PrefaceOutcome) => void): void {
    this.#preface = { read, handler };
    if (this.#early.length > 0) this.sendPreface("");
  }

  /** Bytes before the handshake. */
  sendPreface(text: string): void {
    this.#early = Buffer.concat([this.#early, Buffer.from(text)]);
    const { read, handler } = this.#preface ?? {};
    const reading = read?.(this.#early) ?? "more";
    if (reading === "more") return;
    this.#preface = undefined;
    if ("fault" in reading) {
      this.gone = true;
      handler?.({ kind: "failed", reason: reading.fault, gone: false });
      return;
    }
    this.#early = this.#early.subarray(reading.used);
    handler?.({ kind: "read" });
  }

  secure(_tls: unknown, handler: (outcome: HandshakeOutcome) => void): void {
    this.#handler = handler;
  }

  reset(): void {
    this.gone = true;
    this.#handler = this.#preface = undefined;
  }

  get shakesHands(): boolean {
    return this.#handler !== undefined;
  }

  /** The client's connection once the handshake is done. */
  prove(peer: PresentedPeer): End {
    const [ours, theirs] = memoryPair();
    this.#finish({ kind: "secured", connection: ours, peer });
    return new End(theirs, ours);
  }

  fail(reason: string, gone: boolean): void {
    this.#finish({ kind: "failed", reason, gone });
  }

  #finish(outcome: HandshakeOutcome): void {
    assert.ok(this.#handler, "there is no handshake under way");
    this.#handler(outcome);
    this.#handler = undefined;
  }
}

class MemoryDial {
  readonly options: DialOptions;
  readonly #handler: DialHandler;
  cancelled = false;
  /** It went through, failed or was cancelled. */
  settled = false;
  #connection: MemoryConnection | undefined;

  constructor(options: DialOptions, handler: DialHandler) {
    this.options = options;
    this.#handler = handler;
  }

  /** Breaks what has become of it as well, as a socket's would. */
  cancel(): void {
    this.cancelled = true;
    this.settled = true;
    this.#connection?.reset();
  }

  /** The server's connection once the handshake is done. */
  connect(peer?: PresentedPeer): End {
    assert.ok(!this.cancelled, "it was cancelled");
    const [ours, theirs] = memoryPair();
    this.#connection = ours;
    this.settled = true;
    this.#handler.onConnected(ours, peer);
    return new End(theirs, ours);
  }

  fail(reason = "connection refused"): void {
    assert.ok(!this.cancelled, "it was cancelled");
    this.settled = true;
    this.#handler.onFailed("connect", reason);
  }

  ticket(ticket: Ticket): void {
    this.#handler.onTicket?.(ticket);
  }
}

export class MemoryEngine extends FakeTlsEngine implements Engine {
  readonly name = "memory";
  readonly dials: MemoryDial[] = [];
  readonly #plain = new Map<number, (connection: Connection) => void>();
  readonly #secure = new Map<number, (accepted: AcceptedConnection) => void>();
  #lastPort = 20_000;

  listen(
    options: ListenOptions,
    onConnection: (connection: Connection) => void,
  ): Promise<Listener> {
    return this.#bind(this.#plain, options, onConnection);
  }

  listenSecure(
    options: ListenOptions,
    onAccepted: (accepted: AcceptedConnection) => void,
  ): Promise<Listener> {
    return this.#bind(this.#secure, options, onAccepted);
  }

  #bind<T>(to: Map<number, T>, { address }: ListenOptions, onCaller: T): Promise<Listener> {
    assert.equal(address.kind, "tcp");
    const port = address.kind === "tcp" && address.port || ++this.#lastPort;
    if (this.#plain.has(port) || this.#secure.has(port)) {
      return Promise.reject(new Error("the address is in use"));
    }
    to.set(port, onCaller);
    return Promise.resolve({
      address: { kind: "tcp", host: "127.0.0.1", port },
      pause() {},
      resume() {},
      keepsWaiting: true,
      copies: () => [],
      close: () => void to.delete(port),
    });
  }

  /** Listeners that are bound. */
  get listening(): number {
    return this.#plain.size + this.#secure.size;
  }

  /** A client of a plain listener. */
  call(port: number, remote?: string): End {
    const [ours, theirs] = memoryPair(remote === undefined ? {} : { remote });
    const onConnection = this.#plain.get(port);
    assert.ok(onConnection, `nothing listens on port ${port}`);
    const end = new End(theirs, ours);
    onConnection(ours);
    return end;
  }

  callSecurely(port: number, remote = "127.0.0.1:40000"): SecureCaller {
    const onAccepted = this.#secure.get(port);
    assert.ok(onAccepted, `nothing listens on port ${port}`);
    const caller = new SecureCaller(remote);
    onAccepted(caller);
    return caller;
  }

  dial(options: DialOptions, handler: DialHandler): MemoryDial {
    const dial = new MemoryDial(options, handler);
    this.dials.push(dial);
    return dial;
  }

  /** The last dial, whose turn it is to be answered. */
  get lastDial(): MemoryDial {
    const dial = this.dials.at(-1);
    assert.ok(dial, "nothing was dialled");
    return dial;
  }

  trim(): void {}

  collect(): void {}
}
