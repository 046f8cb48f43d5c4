/**
 * The indexes of the agent's data and those who wait for a change. Like a Raft log: one number rises
 * with every write; each table remembers the last write that touched it, and each topic (one service,
 * one config entry) wakes only those who watch it. The data itself is kept by the modules above.
 *
 * @module
 */

export type Table = "catalog" | "config" | "ca" | "query" | "acl" | "session";

export class Store {
  #index: number;
  readonly #tables = new Map<Table, number>();
  readonly #topics = new Map<string, number>();
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #onCommit = new Set<() => void>();

  constructor(firstIndex = 8) {
    this.#index = firstIndex;
  }

  /** A new index for a write to `table` that concerns `topics`; wakes who watches them. */
  commit(table: Table, topics: readonly string[]): number {
    const index = ++this.#index;
    this.#tables.set(table, index);
    for (const topic of topics) this.#topics.set(topic, index);
    for (const topic of topics) {
      const waiting = this.#waiting.get(topic);
      if (!waiting) continue;
      this.#waiting.delete(topic);
      for (const wake of waiting) wake();
    }
    for (const fn of this.#onCommit) fn();
    return index;
  }

  /** `fn` is called after every write. Returns how to stop. */
  onCommit(fn: () => void): () => void {
    this.#onCommit.add(fn);
    return () => void this.#onCommit.delete(fn);
  }

  /** As it is now; nobody waits there. */
  copy(): Store {
    const copy = new Store(this.#index);
    for (const [table, index] of this.#tables) copy.#tables.set(table, index);
    for (const [topic, index] of this.#topics) copy.#topics.set(topic, index);
    return copy;
  }

  /** Last write to the table; 1 where there was none, as Consul says. */
  tableIndex(table: Table): number {
    return this.#tables.get(table) ?? 1;
  }

  topicIndex(topic: string): number | undefined {
    return this.#topics.get(topic);
  }

  /** Calls `wake` once at the next write that concerns one of `topics`; returns how to stop. */
  watch(topics: readonly string[], wake: () => void): () => void {
    const stop = () => {
      for (const topic of topics) {
        const waiting = this.#waiting.get(topic);
        waiting?.delete(once);
        if (waiting?.size === 0) this.#waiting.delete(topic);
      }
    };
    const once = () => {
      stop();
      wake();
    };
    for (const topic of topics) {
      const waiting = this.#waiting.get(topic);
      if (waiting) waiting.add(once);
      else this.#waiting.set(topic, new Set([once]));
    }
    return stop;
  }

  /** Everything is counted from `index` on again, as after an agent that was replaced. */
  rewind(index: number): void {
    this.#index = index;
    for (const table of this.#tables.keys()) this.#tables.set(table, index);
    for (const topic of this.#topics.keys()) this.#topics.set(topic, index);
  }
}
