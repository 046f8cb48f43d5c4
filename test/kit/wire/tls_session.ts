/**
 * A TLS connection to an echo that stays open, and a crowd of such: for stories in which credentials
 * change under open connections.
 *
 * @module
 */

import { connect, type TLSSocket } from "node:tls";
import type { Place } from "./echo.ts";
import { plainSerial } from "./tls_probe.ts";
import { deadline, pause } from "../process/process.ts";

/** PEM of the client's certificate and key. */
export interface ClientPair {
  readonly cert: string;
  readonly key: string;
}

/** A leaf as {@link ClientPair}. */
export function clientPair(
  leaf: { readonly certPem: string; readonly keyPem: string },
): ClientPair {
  return { cert: leaf.certPem, key: leaf.keyPem };
}

interface TlsSessionOptions {
  readonly servername?: string;
  readonly client?: ClientPair | undefined;
  readonly timeoutMs?: number;
}

const TIMEOUT_MS = 20_000;
const ENOUGH_TIMEOUT_MS = 60_000;

export class TlsSession {
  /** The serial of the leaf that was shown. */
  readonly serial: string;
  readonly #socket: TLSSocket;
  #received = 0;
  #over = false;
  #wake = () => {};

  private constructor(socket: TLSSocket) {
    this.#socket = socket;
    this.serial = plainSerial(socket.getPeerCertificate().serialNumber ?? "");
    socket.on("data", (chunk: Uint8Array) => {
      this.#received += chunk.length;
      this.#wake();
    });
    for (const event of ["end", "close", "error"]) {
      socket.on(event, () => {
        this.#over = true;
        this.#wake();
      });
    }
  }

  /** Resolves when a byte has come back: only that proves that we were taken. */
  static async open(place: Place, options: TlsSessionOptions = {}): Promise<TlsSession> {
    const { servername, client, timeoutMs = TIMEOUT_MS } = options;
    const session = await new Promise<TlsSession>((resolve, reject) => {
      const socket = connect({
        ...place,
        ...(servername ? { servername } : {}),
        ...client,
        // Only looked at, never trusted.
        rejectUnauthorized: false,
      }, () => {
        clearTimeout(timer);
        resolve(new TlsSession(socket));
      });
      const fail = (reason: string) => {
        clearTimeout(timer);
        socket.destroy();
        reject(new Error(`Cannot open a TLS session: ${reason}`));
      };
      const timer = setTimeout(() => fail(`nothing within ${timeoutMs} ms`), timeoutMs);
      socket.on("error", (error) => fail(error.message));
      socket.on("close", () => fail("it was closed"));
    });
    await session.exchange({ timeoutMs });
    return session;
  }

  /** The other side ended or broke it. */
  get isOver(): boolean {
    return this.#over;
  }

  /** A byte there and back; the milliseconds that it took. */
  async exchange(options: { readonly timeoutMs?: number } = {}): Promise<number> {
    const { timeoutMs = TIMEOUT_MS } = options;
    const started = performance.now();
    const wanted = this.#received + 1;
    if (this.#over) throw new Error("The TLS session is over");
    this.#socket.write("?");
    const came = await deadline(this.#until(() => this.#received >= wanted), timeoutMs);
    if (!came) {
      throw new Error(this.#over ? "The TLS session is over" : `No echo in ${timeoutMs} ms`);
    }
    return performance.now() - started;
  }

  /** Whether it ends within that time. */
  async ends(options: { readonly timeoutMs: number }): Promise<boolean> {
    await deadline(this.#until(() => this.#over), options.timeoutMs);
    return this.#over;
  }

  [Symbol.dispose](): void {
    this.#over = true;
    this.#wake();
    this.#socket.destroy();
  }

  /** False: it is over, and the condition does not hold. */
  async #until(holds: () => boolean): Promise<boolean> {
    while (!holds() && !this.#over) await new Promise<void>((resolve) => this.#wake = resolve);
    return holds();
  }
}

export interface TlsTrafficOptions extends TlsSessionOptions {
  readonly longLived?: number;
  readonly shortLived?: number;
  readonly pauseMs?: number;
}

/** One exchange: when it began, of the wall clock, and how long it took. */
interface TlsSample {
  readonly atMs: number;
  readonly tookMs: number;
}

export interface TlsTrafficResult {
  readonly exchanges: number;
  readonly handshakes: number;
  readonly errors: readonly string[];
  /** Samples of the connections that stay. */
  readonly samples: readonly TlsSample[];
}

/** Connections that stay, and others opened one after the other, until it is stopped. */
export class TlsTraffic {
  readonly #place: Place;
  readonly #options: TlsSessionOptions;
  readonly #workers: Promise<void>[];
  #stopping = false;
  #exchanges = 0;
  #handshakes = 0;
  readonly #samples: TlsSample[] = [];
  readonly #errors: string[] = [];
  #started = () => {};
  /** Resolves with the first exchange. */
  readonly started: Promise<void> = new Promise((resolve) => this.#started = resolve);

  constructor(
    place: Place,
    options: TlsTrafficOptions = {},
  ) {
    const { longLived = 2, shortLived = 2, pauseMs = 10, ...rest } = options;
    this.#place = place;
    this.#options = rest;
    this.#workers = [
      ...Array.from({ length: longLived }, () => this.#run(pauseMs, Infinity)),
      ...Array.from({ length: shortLived }, () => this.#run(pauseMs, 1)),
    ];
  }

  /** Goes on, within a minute, until there were that many handshakes and exchanges. */
  async stop(options: { readonly atLeast?: number } = {}): Promise<TlsTrafficResult> {
    const { atLeast = 0 } = options;
    const until = performance.now() + ENOUGH_TIMEOUT_MS;
    const isEnough = () => Math.min(this.#handshakes, this.#exchanges) >= atLeast;
    while (!isEnough() && performance.now() < until) await pause(20);
    this.#stopping = true;
    await Promise.all(this.#workers);
    const [exchanges, handshakes] = [this.#exchanges, this.#handshakes];
    return { exchanges, handshakes, errors: this.#errors, samples: this.#samples };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #run(pauseMs: number, perConnection: number): Promise<void> {
    while (!this.#stopping) {
      try {
        using session = await TlsSession.open(this.#place, this.#options);
        this.#handshakes++;
        for (let i = 0; i < perConnection && !this.#stopping; i++) {
          const atMs = Date.now();
          const tookMs = await session.exchange();
          this.#exchanges++;
          this.#started();
          if (perConnection > 1) this.#samples.push({ atMs, tookMs });
          await pause(pauseMs);
        }
      } catch (error) {
        if (this.#errors.length < 20) this.#errors.push(String(error));
        await pause(100);
      }
    }
  }
}

/** The value below which that share of them lies; 0 of none. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
