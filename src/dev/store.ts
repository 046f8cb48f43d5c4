/** Indexes, as of a Raft log; a write wakes only the readers of its topics. @module */

const FIRST_INDEX = 8;

/** The topic that every write concerns. */
export const ANY_WRITE = "";

export class Store {
  #index: number;
  readonly #indexes: Map<string, number>;
  readonly #waiting = new Map<string, Set<() => void>>();

  /** `from`: a store to be copied as it is now, without its readers. */
  constructor(from?: Store) {
    this.#index = from ? from.#index : FIRST_INDEX;
    this.#indexes = new Map(from && from.#indexes);
  }

  /** The index of a new write that concerns `topics`; their readers wake. */
  commit(topics: readonly string[]): number {
    const index = ++this.#index;
    for (const topic of topics) this.#indexes.set(topic, index);
    for (const topic of [...topics, ANY_WRITE]) {
      for (const wake of [...this.#waiting.get(topic) ?? []]) wake();
    }
    return index;
  }

  /** Index of the last write that concerned the topic; undefined: there was none. */
  indexOf(topic: string): number | undefined {
    return this.#indexes.get(topic);
  }

  /** Resolves at the next write that concerns one of `topics`, or when `signal` aborts. */
  change(topics: readonly string[], signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        for (const topic of topics) {
          const waiting = this.#waiting.get(topic);
          waiting?.delete(wake);
          if (waiting?.size === 0) this.#waiting.delete(topic);
        }
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      if (signal?.aborted) return resolve();
      for (const topic of topics) {
        const waiting = this.#waiting.get(topic) ?? new Set();
        this.#waiting.set(topic, waiting.add(wake));
      }
      signal?.addEventListener("abort", wake);
    });
  }

  /** Goes on counting from `index`, as an agent that replaces another one does. */
  rewind(index: number): void {
    this.#index = index;
    for (const topic of this.#indexes.keys()) this.#indexes.set(topic, index);
  }
}

/** The topic of every write in the catalog, but for checks. */
export const CATALOG = "catalog";
/** The topic of every write of a config entry. */
export const CONFIG = "config";
export const ROOTS = "ca:roots";

/** The instances of a service: all of them, or (`mesh`) those that take its mesh traffic. */
export function serviceTopic(name: string, mesh: boolean): string {
  return `${mesh ? "mesh" : "service"}:${name.toLowerCase()}`;
}

export function instanceTopic(node: string, id: string): string {
  return `instance:${node}/${id}`;
}

export function nodeTopic(name: string): string {
  return `node:${name.toLowerCase()}`;
}

export function checksTopic(name: string): string {
  return `checks:${name.toLowerCase()}`;
}

/** One kind of config entries, or one entry. Intentions are found in any letter case. */
export function configTopic(kind: string, name?: string): string {
  if (name === undefined) return `${CONFIG}:${kind}`;
  return `${CONFIG}:${kind}/${kind === "service-intentions" ? name.toLowerCase() : name}`;
}

export function leafTopic(service: string): string {
  return `ca:leaf:${service}`;
}
