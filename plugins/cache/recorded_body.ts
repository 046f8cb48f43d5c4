/** Passes a body on and keeps a copy. @module */

import type { Body, Bytes } from "../../src/plugin/api.ts";

export interface Recording {
  readonly limitBytes: number;
  /** False: there is no memory for so many bytes more. */
  grow(bytes: number): boolean;
  /** Called once: with the whole body, or without one if it is incomplete or too long. */
  done(body: Bytes | undefined): void;
}

/**
 * Reads ahead of its reader up to the limit, so that one caller who reads slowly does not hold up those who
 * wait for the copy.
 */
export function recordedBody(
  body: Body,
  { limitBytes, grow, done }: Recording,
): ReadableStream<Uint8Array> {
  const { length: announced } = body;
  const reader = body.stream().getReader();
  let chunks: Uint8Array[] | undefined = [];
  let length = 0;
  const giveUp = () => {
    if (chunks) done(undefined);
    chunks = undefined;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done: isOver, value } = await reader.read();
        if (isOver) {
          if (chunks && (announced === null || announced === length)) done(joined(chunks, length));
          else giveUp();
          chunks = undefined;
          return controller.close();
        }
        length += value.length;
        if (length > limitBytes || (chunks && !grow(value.length))) giveUp();
        chunks?.push(value);
        controller.enqueue(value);
      } catch (error) {
        giveUp();
        throw error;
      }
    },
    cancel(reason) {
      giveUp();
      return reader.cancel(reason);
    },
  }, { highWaterMark: limitBytes, size: (chunk) => chunk.length });
}

function joined(chunks: readonly Uint8Array[], length: number): Bytes {
  const all = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}
