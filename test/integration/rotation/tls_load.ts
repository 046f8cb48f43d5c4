/**
 * Clients that open a TLS connection, verify the server, exchange a message and close, again and again;
 * any failure counts.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import { connect } from "node:tls";
import { pattern, type Place } from "../../kit/wire/echo.ts";
import { pause } from "../../kit/process/process.ts";
import { type Client, SERVER_NAME } from "./rotating_mesh.ts";

/** Opens, exchanges `message` and closes in order. */
export function exchange(place: Place, client: Client, message: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let length = 0;
    let whole = false;
    const socket = connect({ ...place, ...client, servername: SERVER_NAME }, () => {
      socket.write(message);
    });
    socket.setTimeout(10_000, () => socket.destroy(new Error("Nothing within 10 s")));
    socket.on("data", (chunk: Uint8Array) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length < message.length || whole) return;
      whole = sameBytes(chunks, message);
      socket.end();
    });
    socket.on("error", reject);
    socket.on("close", () => {
      if (whole) resolve();
      else reject(new Error(`Closed after ${length} of ${message.length} bytes, or others`));
    });
  });
}

interface TlsLoadResult {
  readonly exchanges: number;
  readonly failures: readonly string[];
}

export class TlsLoad implements AsyncDisposable {
  readonly #places: readonly Place[];
  readonly #client: Client;
  readonly #pauseMs: number;
  #exchanges = 0;
  readonly #failures: string[] = [];
  #running = true;
  #workers: Promise<void>[] = [];
  readonly #clients: number;

  /** Each client takes the places in turn. */
  constructor(
    places: readonly Place[],
    client: Client,
    options: { readonly clients: number; readonly pauseMs: number },
  ) {
    this.#places = places;
    this.#client = client;
    this.#pauseMs = options.pauseMs;
    this.#clients = options.clients;
    this.resume();
  }

  get result(): TlsLoadResult {
    return { exchanges: this.#exchanges, failures: this.#failures };
  }

  /** Everyone finishes, and nothing is open any more. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#workers);
  }

  resume(): void {
    this.#running = true;
    this.#workers = Array.from({ length: this.#clients }, (_, index) => this.#work(index));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #work(index: number): Promise<void> {
    // Clients do not start all at once.
    await pause(index * this.#pauseMs / this.#clients);
    for (let round = 0; this.#running; round++) {
      const place = this.#places[(index + round) % this.#places.length];
      if (!place) return;
      try {
        await exchange(place, this.#client, pattern(index + round, 2_048));
        this.#exchanges++;
      } catch (error) {
        const atMs = Math.round(performance.now());
        this.#failures.push(`${atMs} ms: ${error instanceof Error ? error.message : error}`);
      }
      await pause(this.#pauseMs);
    }
  }
}

function sameBytes(chunks: readonly Uint8Array[], message: Uint8Array): boolean {
  const got = Buffer.concat(chunks);
  return got.length === message.length && got.equals(message);
}
