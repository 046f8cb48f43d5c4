/**
 * Shows the control thread which hook of which plugin a worker runs, in memory that survives the worker. A call
 * of a hook costs a few stores. Only plugins from files are marked.
 *
 * @module
 */

import { createHash } from "node:crypto";

/** Kinds of calls into the code of a plugin. */
export const HOOKS = [
  "import",
  "config",
  "create",
  "onRoutes",
  "route",
  "onConnection",
  "onRequest",
  "response",
  "onEnd",
  "timer",
  "close",
] as const;

export type HookName = (typeof HOOKS)[number];

/** Calls that come before a plugin serves. */
const SETUP: ReadonlySet<HookName> = new Set(["import", "config", "create", "onRoutes"]);

/** The numbers by which hooks are marked. */
export const IN = Object.fromEntries(HOOKS.map((hook, code) => [hook, code])) as Readonly<
  Record<HookName, number>
>;

const CODES = 16;
/** Cells: the hook that runs, the one entered last, and the number of entries. */
const RUNNING = 0;
const LAST = 1;
const ENTRIES = 2;
const CELLS = 3;
/** Closed plugins that can be named still. */
const CLOSED_LIMIT = 64;

/** A plugin from a file at its place in the configuration. Plain data, sent between threads. */
export interface MarkedPlugin {
  /** Before it is imported: its path. */
  readonly plugin: string;
  readonly listener: string;
  readonly onFailure: "refuse" | "skip";
  readonly at: string;
  /** The same as long as its list, code and configuration are. */
  readonly key: string;
}

/** A plugin that has held a worker. Plain data, sent between threads. */
export interface HeldPlugin {
  readonly key: string;
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** `create`: no other instance is created. `calls`: instances that serve are not called, either. */
  readonly barred: "none" | "create" | "calls";
}

export function keyOf(...facts: readonly unknown[]): string {
  return createHash("sha256").update(JSON.stringify(facts)).digest("hex");
}

/** `undefined`: it was closed. */
export type TellMarked = (id: number, plugin: MarkedPlugin | undefined) => void;

/** The marks of one worker, for the worker. */
export class HookMarks {
  readonly #cells: Int32Array;
  readonly #tell: TellMarked;
  readonly #open = new Set<HookMark>();
  #held: ReadonlyMap<string, HeldPlugin> = new Map();
  #lastId = 0;

  constructor(memory: SharedArrayBuffer, tell: TellMarked) {
    this.#cells = new Int32Array(memory);
    this.#tell = tell;
  }

  open(plugin: MarkedPlugin): HookMark {
    const id = ++this.#lastId;
    const mark: HookMark = new HookMark(this.#cells, id * CODES, (named) => {
      if (!named) this.#open.delete(mark);
      this.#tell(id, named);
    }, plugin);
    mark.held = this.#held.get(plugin.key);
    this.#open.add(mark);
    this.#tell(id, plugin);
    return mark;
  }

  /** Replaces the list of plugins that have held a worker. */
  setHeld(held: readonly HeldPlugin[]): void {
    this.#held = new Map(held.map((one) => [one.key, one]));
    for (const mark of this.#open) {
      mark.held = this.#held.get(mark.plugin.key);
      mark.onHeld?.();
    }
  }
}

/** The mark of one instance of a plugin. */
export class HookMark {
  /** Its plugin has held a worker. */
  held: HeldPlugin | undefined;
  /** Called when {@link held} may have changed. */
  onHeld: (() => void) | undefined;
  plugin: MarkedPlugin;
  readonly #cells: Int32Array;
  readonly #code: number;
  readonly #change: (plugin: MarkedPlugin | undefined) => void;
  #isClosed = false;

  constructor(
    cells: Int32Array,
    code: number,
    change: (plugin: MarkedPlugin | undefined) => void,
    plugin: MarkedPlugin,
  ) {
    this.#cells = cells;
    this.#code = code;
    this.#change = change;
    this.plugin = plugin;
  }

  /** Before a hook is called. Returns what {@link leave} takes after it. */
  enter(hook: number): number {
    const cells = this.#cells;
    const before = cells[RUNNING] ?? 0;
    cells[RUNNING] = cells[LAST] = this.#code + hook;
    cells[ENTRIES] = (cells[ENTRIES] ?? 0) + 1;
    return before;
  }

  leave(before: number): void {
    this.#cells[RUNNING] = before;
  }

  /** A hook goes on after it has awaited something. */
  resumed(hook: number): void {
    this.#cells[LAST] = this.#code + hook;
  }

  call<T>(hook: number, run: () => T): T {
    const before = this.enter(hook);
    try {
      return run();
    } finally {
      this.leave(before);
    }
  }

  named(plugin: string): void {
    this.plugin = { ...this.plugin, plugin };
    this.#change(this.plugin);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#change(undefined);
  }
}

/** A plugin that holds a worker now, or has ended it. */
export interface HoldingPlugin {
  readonly plugin: MarkedPlugin;
  readonly hook: HookName;
  /** It came before the plugin served. */
  readonly isSetup: boolean;
  /** False: the worker does not answer, or has ended, and this is the plugin that was called last. */
  readonly isSure: boolean;
  /** The worker has ended, as by `process.exit`. */
  readonly hasEnded?: true;
}

/** The marks of one worker, for the control thread. */
export class HookWatch {
  readonly memory = new SharedArrayBuffer(4 * CELLS);
  readonly #cells = new Int32Array(this.memory);
  readonly #plugins = new Map<number, MarkedPlugin>();
  readonly #closed = new Map<number, MarkedPlugin>();
  #running = 0;
  #entries = 0;
  /** Looks in a row at which the same call was running. */
  #same = 0;
  #unanswered = 0;
  /** The last holder is still holding. */
  isHeld = false;

  readonly take: TellMarked = (id, plugin) => {
    const known = this.#plugins.get(id);
    if (plugin) this.#plugins.set(id, plugin);
    else this.#plugins.delete(id);
    if (plugin || !known) return;
    // A closed plugin may have tasks still.
    this.#closed.set(id, known);
    for (const oldest of this.#closed.keys()) {
      if (this.#closed.size <= CLOSED_LIMIT) break;
      this.#closed.delete(oldest);
    }
  };

  /** Plugins from files that the worker has; those of a replaced generation are among them until it is closed. */
  get plugins(): readonly MarkedPlugin[] {
    return [...this.#plugins.values()];
  }

  get isUsed(): boolean {
    return this.#plugins.size > 0;
  }

  /**
   * Looks are counted, not time: a machine that stood still has held nobody. A plugin is returned once for
   * each time that it holds the worker.
   *
   * @param limits Looks until a hook that runs, or a worker without an answer, is held.
   */
  look(
    isAnswering: boolean,
    limits: { readonly hook: number; readonly answer: number },
  ): HoldingPlugin | undefined {
    const running = Atomics.load(this.#cells, RUNNING);
    const entries = Atomics.load(this.#cells, ENTRIES);
    const isSame = running !== 0 && running === this.#running && entries === this.#entries;
    this.#same = isSame ? this.#same + 1 : 0;
    this.#unanswered = isAnswering ? 0 : this.#unanswered + 1;
    this.#running = running;
    this.#entries = entries;
    const isSure = this.#same >= limits.hook;
    const wasHeld = this.isHeld;
    this.isHeld = isSure || this.#unanswered >= limits.answer;
    if (!this.isHeld || wasHeld) return undefined;
    return this.#holding(isSure ? running : Atomics.load(this.#cells, LAST), isSure);
  }

  /** The plugin that ran when the worker ended, or was called last. */
  ended(): HoldingPlugin | undefined {
    const running = Atomics.load(this.#cells, RUNNING);
    const holding = this.#holding(running || Atomics.load(this.#cells, LAST), running !== 0);
    return holding && { ...holding, hasEnded: true };
  }

  #holding(cell: number, isSure: boolean): HoldingPlugin | undefined {
    const id = Math.floor(cell / CODES);
    const plugin = this.#plugins.get(id) ?? this.#closed.get(id);
    const hook = HOOKS[cell % CODES];
    return plugin && hook && { plugin, hook, isSetup: SETUP.has(hook), isSure };
  }
}
