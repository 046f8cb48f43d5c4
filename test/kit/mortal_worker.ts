/**
 * The data worker, with a way to die: told on the channel, its thread throws what nobody catches. And
 * one to be stuck for a while: told the time for it, too.
 *
 * @module
 */

import "../../src/app/worker.ts";

/** Under this name the test says which worker is to die; see {@link MORTAL_CHANNEL}. */
export const MORTAL_CHANNEL = "postern-mortal-worker";

const scope = globalThis as unknown as {
  onmessage: (
    event: { readonly data: { readonly kind: string; readonly settings?: Settings } },
  ) => void;
};
interface Settings {
  readonly worker: number;
}

let worker = -1;
const serve = scope.onmessage;
scope.onmessage = (event) => {
  worker = event.data.settings?.worker ?? worker;
  return serve(event);
};

interface Stuck {
  readonly worker: number;
  readonly stuckMs: number;
}

new BroadcastChannel(MORTAL_CHANNEL).onmessage = ({ data }: MessageEvent<number | Stuck>) => {
  if (typeof data === "object") {
    if (data.worker !== worker) return;
    const end = performance.now() + data.stuckMs;
    while (performance.now() < end);
    return;
  }
  if (data === worker) {
    // Out of the channel's own handler, so that nothing of it can catch this.
    setTimeout(() => {
      throw new Error("told to die");
    });
  }
};
