/**
 * The incremental variant (`DeltaSecrets`): requests and responses say what changes, and a new stream
 * begins with the versions of what we hold. Pure: messages in, messages out.
 *
 * @module
 */

import {
  type DeltaRequest,
  type DeltaResponse,
  type ErrorDetail,
  type SdsClient,
  type SdsResource,
  SECRET_TYPE_URL,
} from "./messages.ts";
import {
  Answers,
  duplicatesOf,
  Expiries,
  Faults,
  offeredOf,
  type Protocol,
  type ProtocolHost,
  type ProtocolOptions,
} from "./protocol.ts";

interface Stream {
  /** Given up during this stream; the server may not know yet. */
  readonly dropped: Set<string>;
}

export class DeltaProtocol implements Protocol<DeltaResponse> {
  readonly #client: SdsClient;
  readonly #send: (request: DeltaRequest) => void;
  readonly #host: ProtocolHost;
  readonly #answers: Answers;
  readonly #expiries: Expiries;
  readonly #names = new Set<string>();
  /** What we hold. */
  readonly #versions = new Map<string, string>();
  #stream: Stream | undefined;
  #tail: Promise<void> = Promise.resolve();

  constructor(client: SdsClient, options: ProtocolOptions<DeltaRequest>) {
    const { send, host, clock, random } = options;
    this.#client = client;
    this.#send = send;
    this.#host = host;
    this.#answers = new Answers(clock, random);
    this.#expiries = new Expiries(clock, (name) => this.#remove(name));
  }

  get names(): ReadonlySet<string> {
    return this.#names;
  }

  change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    const stream = this.#stream;
    const gone = unsubscribe.filter((name) => this.#names.delete(name));
    for (const name of gone) {
      this.#versions.delete(name);
      this.#expiries.forget(name);
      stream?.dropped.add(name);
    }
    const added = subscribe.filter((name) => !this.#names.has(name));
    for (const name of added) {
      this.#names.add(name);
      stream?.dropped.delete(name);
    }
    if (!stream || (gone.length === 0 && added.length === 0)) return;
    // A name given up and taken up again is asked for anew.
    this.#request({ subscribe: added, unsubscribe: gone.filter((name) => !this.#names.has(name)) });
  }

  opened(): void {
    this.#stream = { dropped: new Set() };
    this.#request({
      client: this.#client,
      subscribe: [...this.#names],
      initialVersions: new Map(this.#versions),
    });
  }

  closed(): void {
    this.#stream = undefined;
    this.#answers.drop();
  }

  close(): void {
    this.closed();
    this.#expiries.close();
  }

  message(response: DeltaResponse): Promise<void> {
    const stream = this.#stream;
    if (!stream) return Promise.resolve();
    return this.#tail = this.#tail.then(() => this.#take(stream, response));
  }

  async #take(stream: Stream, response: DeltaResponse): Promise<void> {
    if (this.#stream !== stream) return;
    // Unlike in the state of the world every response is answered, put off or not.
    this.#answers.flush();
    const faults = await this.#judge(stream, response);
    if (this.#stream !== stream) return;
    const { nonce } = response;
    if (faults.any) this.#answers.refused(() => this.#request({ nonce, error: faults.detail() }));
    else this.#answers.taken(() => this.#request({ nonce }));
  }

  async #judge(stream: Stream, response: DeltaResponse): Promise<Faults> {
    const { resources, removed } = response;
    const faults = new Faults();
    const whole = this.#wholeFault(response);
    if (whole !== undefined) {
      faults.add(whole);
      for (const name of this.#names) this.#host.rejected(name, whole);
      return faults;
    }
    const duplicates = duplicatesOf(resources);
    for (const resource of resources) {
      if (this.#stream !== stream) return faults;
      const { name } = resource;
      if (!this.#names.has(name)) {
        if (!stream.dropped.has(name)) faults.add(unexpected(resource));
        continue;
      }
      const reason = await this.#use(resource, duplicates.has(name));
      if (reason !== undefined) faults.add(`${name}: ${reason}`);
    }
    for (const name of removed) {
      if (this.#stream !== stream) return faults;
      if (this.#names.has(name)) this.#remove(name);
    }
    return faults;
  }

  #wholeFault({ typeUrl, resources, removed }: DeltaResponse): string | undefined {
    if (typeUrl !== SECRET_TYPE_URL) return `the response is of type "${typeUrl.slice(0, 200)}"`;
    const [only, ...more] = this.#names;
    const empty = resources.length === 0 && removed.length === 0;
    return empty && only !== undefined && more.length === 0
      ? `Missing SDS resources for ${only}`
      : undefined;
  }

  /** Refuses, or takes into use; the reason is told to the host where it does not know it already. */
  async #use(resource: SdsResource, twice: boolean): Promise<string | undefined> {
    const { name, version, content, ttlMs } = resource;
    if (content.kind === "heartbeat" && this.#versions.get(name) === version && !twice) {
      this.#expiries.set(name, ttlMs);
      return undefined;
    }
    const offered = twice ? "it is in the response twice" : offeredOf(resource);
    if (typeof offered === "string") {
      this.#host.rejected(name, offered);
      return offered;
    }
    const reason = await this.#host.accept(offered);
    // Given up while it was looked at: nobody knows it now.
    if (reason !== undefined || !this.#names.has(name)) return reason;
    this.#versions.set(name, version);
    this.#expiries.set(name, ttlMs);
    return undefined;
  }

  #remove(name: string): void {
    this.#versions.delete(name);
    this.#expiries.forget(name);
    this.#host.removed(name);
  }

  #request(
    parts: {
      readonly client?: SdsClient;
      readonly subscribe?: readonly string[];
      readonly unsubscribe?: readonly string[];
      readonly initialVersions?: ReadonlyMap<string, string>;
      readonly nonce?: string;
      readonly error?: ErrorDetail;
    },
  ): void {
    this.#send({
      subscribe: [],
      unsubscribe: [],
      initialVersions: NOTHING,
      // Left empty by what is no answer.
      nonce: "",
      ...parts,
    });
  }
}

const NOTHING: ReadonlyMap<string, string> = new Map();

/** A resource of no name, or of one that was not asked for. */
function unexpected({ name, content }: SdsResource): string {
  if (name !== "") return `"${name.slice(0, 256)}" was not asked for`;
  const reason = content.kind === "unreadable" ? content.reason : "it has no name";
  return `a resource cannot be used: ${reason}`;
}
