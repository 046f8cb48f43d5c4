/**
 * The data worker with two faults for tests: on a message, its thread throws an error that nothing catches;
 * on `stick`, its thread stores 1 in the first word and waits for the second.
 *
 * @module
 */

import "../../../src/app/workers/worker.ts";

/** On this channel the test names the worker that is to end. */
const FAILING_CHANNEL = "postern-failing-worker";

interface WorkerMessage {
  readonly words?: Int32Array;
  readonly name?: string;
  readonly given?: readonly [{ readonly settings: { readonly worker: number } }];
}

const scope = globalThis as unknown as {
  onmessage: (event: { readonly data: WorkerMessage }) => void;
};

let worker = -1;
const serve = scope.onmessage;
scope.onmessage = (event) => {
  const { words, name, given } = event.data;
  if (words) {
    Atomics.store(words, 0, 1);
    Atomics.wait(words, 1, 0);
    return;
  }
  if (name === "start") worker = given?.[0].settings.worker ?? worker;
  return serve(event);
};

new BroadcastChannel(FAILING_CHANNEL).onmessage = ({ data }: MessageEvent) => {
  if (data === worker) {
    // Out of the channel's own handler, so that nothing of it can catch this.
    setTimeout(() => {
      throw new Error("killed by the test");
    });
  }
};
