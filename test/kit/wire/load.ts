/**
 * Measures "0 errors under load": echo clients that exchange messages until they are stopped. Bounded: a
 * few connections, small messages, a pause between them.
 *
 * @module
 */

import { EchoClient, pattern, type Place } from "./echo.ts";
import { pause } from "../process/process.ts";

export interface LoadOptions {
  /** Connections that stay and exchange messages. */
  readonly longLived?: number;
  /** Clients that open a connection for each message. */
  readonly shortLived?: number;
  readonly pauseMs?: number;
  readonly maxMessageBytes?: number;
  /** Whether the server sends a line first. */
  readonly greeting?: boolean;
}

export interface LoadResult {
  readonly exchanges: number;
  readonly connections: number;
  readonly errors: number;
  /** The first few, with the second in which each happened. */
  readonly messages: readonly string[];
}

/** Fails unless the load went through without a single error, and was more than a few messages. */
export function assertFlawless(result: LoadResult, options: { readonly atLeast: number }): void {
  if (result.errors > 0) {
    throw new Error(
      `${result.errors} errors in ${result.exchanges} exchanges:\n${result.messages.join("\n")}`,
    );
  }
  if (result.exchanges < options.atLeast) {
    throw new Error(`Only ${result.exchanges} exchanges: too few to prove anything`);
  }
}

const KEPT_MESSAGES = 20;
const ENOUGH_TIMEOUT_MS = 60_000;

/** Workers that run until they are stopped, and their result. */
export abstract class Workers<Result extends LoadResult> implements AsyncDisposable {
  protected stopping = false;
  protected exchanges = 0;
  protected connections = 0;
  readonly #started = performance.now();
  readonly #running: Promise<void>[] = [];
  #errors = 0;
  readonly #messages: string[] = [];

  abstract get result(): Result;

  protected get counts(): LoadResult {
    const { exchanges, connections } = this;
    return { exchanges, connections, errors: this.#errors, messages: this.#messages };
  }

  protected start(count: number, work: (index: number) => Promise<void>): void {
    for (let i = 0; i < count; i++) this.#running.push(work(i));
  }

  /**
   * Lets every worker finish its exchange, in order; before that it waits, within a minute, for as many
   * exchanges as prove anything, however slow the machine is.
   */
  async stop(options: { readonly atLeast?: number } = {}): Promise<Result> {
    await this.past(options.atLeast ?? 0);
    this.stopping = true;
    await Promise.all(this.#running);
    return this.result;
  }

  /** So many exchanges are done, or a minute is over. */
  async past(exchanges: number): Promise<void> {
    const until = performance.now() + ENOUGH_TIMEOUT_MS;
    while (this.exchanges < exchanges && performance.now() < until) await pause(50);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** Failures are counted, and kept for the report. */
  protected async guarded(kind: string, use: () => Promise<void>): Promise<void> {
    try {
      await use();
    } catch (error) {
      this.#errors++;
      const second = ((performance.now() - this.#started) / 1000).toFixed(1);
      const message = error instanceof Error ? error.message : String(error);
      if (this.#messages.length < KEPT_MESSAGES) {
        this.#messages.push(`${second} s ${kind}: ${message}`);
      }
      // A target that is down must not turn the load into a busy loop.
      await pause(100);
    }
  }
}

/** Clients of an echo. */
export class Load extends Workers<LoadResult> {
  readonly #place: Place;
  readonly #options: Required<LoadOptions>;

  constructor(place: Place, options: LoadOptions = {}) {
    super();
    this.#place = place;
    this.#options = {
      longLived: 4,
      shortLived: 4,
      pauseMs: 10,
      maxMessageBytes: 32_768,
      greeting: false,
      ...options,
    };
    this.start(this.#options.longLived, (i) => this.#longLived(i));
    this.start(this.#options.shortLived, (i) => this.#shortLived(100 + i));
  }

  get result(): LoadResult {
    return this.counts;
  }

  async #longLived(seed: number): Promise<void> {
    while (!this.stopping) {
      await this.#withClient("long-lived", async (client) => {
        while (!this.stopping) {
          await this.#exchange(client, seed);
          await pause(this.#options.pauseMs);
        }
      });
    }
  }

  async #shortLived(seed: number): Promise<void> {
    while (!this.stopping) {
      await this.#withClient("short-lived", (client) => this.#exchange(client, seed));
      await pause(this.#options.pauseMs);
    }
  }

  async #exchange(client: EchoClient, seed: number): Promise<void> {
    await client.exchange(pattern(seed + this.exchanges, this.#options.maxMessageBytes));
    this.exchanges++;
  }

  #withClient(kind: string, use: (client: EchoClient) => Promise<void>): Promise<void> {
    return this.guarded(kind, async () => {
      const client = await EchoClient.open(this.#place);
      try {
        this.connections++;
        if (this.#options.greeting) await client.readLine();
        await use(client);
        await client.finish();
      } finally {
        client.destroy();
      }
    });
  }
}
