/** Responses that a client reads as they grow: server-sent events. @module */

import type { ServerResponse } from "node:http";
import type { Clock } from "../../base/mod.ts";

export const EVENT_STREAM_TYPE = "text/event-stream";

interface StreamedEvent {
  readonly id?: number;
  /** Default of clients: `message`. */
  readonly event?: string;
  readonly data: string;
}

export interface EventSink {
  /** False: the client reads too slowly, and this event was not taken. */
  send(event: StreamedEvent): boolean;
  /** Ends the stream after all that was taken. */
  end(): void;
}

interface EventProducer {
  /** The client has read what was held: `send` takes events again. */
  onRoom?(): void;
  /** Called once: the client has left, or the server closes. */
  close(): void;
}

/** Held for a client that does not read: about a hundred events. */
const HELD_BYTES = 65_536;
/** Finds a client that left without a word, and keeps middleboxes from closing a silent connection. */
const HEARTBEAT_MS = 15_000;
const HEARTBEAT = new TextEncoder().encode(":\n\n");
/** A client that reads nothing for so long has left. */
const STALLED_MS = 30_000;

/** `start` runs when the first byte of the body is wanted, and not for a `HEAD` request. */
export function eventStream(start: (sink: EventSink) => EventProducer): Response {
  const encoder = new TextEncoder();
  let producer: EventProducer | undefined;
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let isEnded = false;
  let wake = () => {};
  const sink: EventSink = {
    send(event) {
      const bytes = encoder.encode(textOf(event));
      if (isEnded || heldBytes + bytes.length > HELD_BYTES) return false;
      held.push(bytes);
      heldBytes += bytes.length;
      wake();
      return true;
    },
    end() {
      isEnded = true;
      wake();
    },
  };
  const close = () => {
    isEnded = true;
    held = [];
    const closing = producer;
    producer = { close() {} };
    closing?.close();
    wake();
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      producer ??= start(sink);
      while (held.length === 0) {
        if (isEnded) {
          close();
          return controller.close();
        }
        await new Promise<void>((resolve) => wake = resolve);
      }
      controller.enqueue(Buffer.concat(held));
      held = [];
      heldBytes = 0;
      producer.onRoom?.();
    },
    cancel: close,
  }, { highWaterMark: 0 });
  return new Response(body, { headers: { "content-type": EVENT_STREAM_TYPE } });
}

function textOf({ id, event, data }: StreamedEvent): string {
  const head = (id === undefined ? "" : `id: ${id}\n`) +
    (event === undefined ? "" : `event: ${event}\n`);
  return `${head}${data.split("\n").map((line) => `data: ${line}\n`).join("")}\n`;
}

/** Writes `body` as fast as the client reads; resolves at its end. Aborting `signal` ends the response. */
export async function writeStream(
  response: ServerResponse,
  body: ReadableStream<Uint8Array>,
  { clock, signal }: { readonly clock: Pick<Clock, "after">; readonly signal: AbortSignal },
): Promise<void> {
  const reader = body.getReader();
  const cancel = () =>
    void reader.cancel().catch(() => {
      // The producer is closed either way.
    });
  response.once("close", cancel);
  signal.addEventListener("abort", cancel);
  response.flushHeaders();
  let isBlocked = false;
  const beat = () => {
    // Each chunk of a body holds whole events.
    if (!isBlocked) response.write(HEARTBEAT);
    heartbeat = clock.after(HEARTBEAT_MS, beat);
  };
  let heartbeat = clock.after(HEARTBEAT_MS, beat);
  try {
    if (signal.aborted) cancel();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      if (response.write(value)) continue;
      isBlocked = true;
      await drained(response, { clock, signal });
      isBlocked = false;
    }
  } catch {
    // The body has failed: the client sees an end without the last chunk.
    response.destroy();
  } finally {
    heartbeat.cancel();
    response.off("close", cancel);
    signal.removeEventListener("abort", cancel);
  }
  response.end();
}

function drained(
  response: ServerResponse,
  { clock, signal }: { readonly clock: Pick<Clock, "after">; readonly signal: AbortSignal },
): Promise<void> {
  if (signal.aborted || response.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const done = () => {
      timer.cancel();
      for (const event of ["drain", "close"]) response.off(event, done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = clock.after(STALLED_MS, () => {
      response.destroy();
      done();
    });
    for (const event of ["drain", "close"]) response.once(event, done);
    signal.addEventListener("abort", done);
  });
}
