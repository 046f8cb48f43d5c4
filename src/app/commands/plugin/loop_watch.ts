/**
 * Names a test that loops. It holds the thread of all tests, so another thread notices it, reports it and
 * ends the process.
 *
 * @module
 */

/** A test that does not let the thread go for so long loops. */
const LOOP_MS = 10_000;
const BEAT_MS = 500;

/** The code of the other thread; `data`: the beats, the limit, or what runs now (`""`: nothing). */
const WATCHER = `import { writeSync } from "node:fs";
import process from "node:process";
let beats, limitMs, name = "", last = -1, sinceMs = 0;
onmessage = ({ data }) => {
  if (typeof data === "string") { name = data; sinceMs = performance.now(); }
  else { beats = new Int32Array(data.beats); limitMs = data.limitMs; }
};
setInterval(() => {
  const now = beats ? Atomics.load(beats, 0) : 0;
  if (now !== last) { last = now; sinceMs = performance.now(); }
  if (name === "" || performance.now() - sinceMs < limitMs) return;
  writeSync(1, "  failed  " + name + "\\n          it loops: it has not let the thread go for " +
    limitMs / 1000 + " s, so no other test can run\\n");
  process.kill(process.pid, "SIGKILL");
}, ${BEAT_MS});
`;

export class LoopWatch {
  readonly #beats = new Int32Array(new SharedArrayBuffer(4));
  readonly #watcher: Worker;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(limitMs = LOOP_MS) {
    const code = new Blob([WATCHER], { type: "text/javascript" });
    const url = URL.createObjectURL(code);
    this.#watcher = new Worker(url, { type: "module" });
    this.#watcher.postMessage({ beats: this.#beats.buffer, limitMs });
    this.#timer = setInterval(() => void Atomics.add(this.#beats, 0, 1), BEAT_MS);
  }

  /** `name`: of a test or file; `""`: it has ended. */
  runs(name: string): void {
    this.#watcher.postMessage(name);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#watcher.terminate();
  }
}
