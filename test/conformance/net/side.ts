/** One end of a connection that records its events, and methods that wait for them. @module */

import assert from "node:assert/strict";
import { systemClock } from "../../../src/base/mod.ts";
import type { Connection, PresentedPeer, StreamEvents } from "../../../src/net/mod.ts";

const PATIENCE_MS = 30_000;

/** Something to wait on: woken at each event, fails with the events seen so far. */
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

/** One end of a connection, and all of its events. */
export class Side extends Waiting implements StreamEvents {
  readonly connection: Connection;
  readonly peer: PresentedPeer | undefined;
  readonly chunks: Uint8Array[] = [];
  /** `data` (once per run of chunks), `end`, `drain`, `close` or `reset`. */
  readonly events: string[] = [];
  /** The reason that the close gave for the end of the peer's TLS. */
  alert = "";
  size = 0;
  onChunk: ((chunk: Uint8Array) => void) | undefined;

  constructor(connection: Connection, peer?: PresentedPeer) {
    super();
    this.connection = connection;
    this.peer = peer;
    connection.events = this;
  }

  onData(chunk: Uint8Array): void {
    if (this.events.at(-1) !== "data") this.events.push("data");
    this.size += chunk.length;
    if (this.onChunk) this.onChunk(chunk);
    else this.chunks.push(chunk);
    this.woken();
  }
  onEnd(): void {
    this.#record("end");
  }
  onDrain(): void {
    this.#record("drain");
  }
  onClose(reset: boolean, alert: string): void {
    this.alert = alert;
    this.#record(reset ? "reset" : "close");
  }
  #record(event: string): void {
    this.events.push(event);
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
    const gone = () => this.events.includes("close") || this.events.includes("reset");
    return this.until(
      () => this.events.includes(name) || gone(),
      () => `saw ${this.events.join()}, not ${name}`,
    ).then(() =>
      assert.ok(this.events.includes(name), `events ${this.events.join()}, not ${name}`)
    );
  }

  /** Gone, however. */
  over(): Promise<void> {
    const last = () => this.events.at(-1);
    return this.until(
      () => last() === "close" || last() === "reset",
      () => `saw ${this.events.join()}, still open`,
    );
  }
}

/** Some turns of the event loop, for what must not happen: there is no event to wait for. */
export async function quiet(turns = 20): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await new Promise<void>((resolve) => systemClock.after(1, resolve));
  }
}
