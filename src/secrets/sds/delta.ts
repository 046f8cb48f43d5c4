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
} from "./sds_messages.ts";
import { Holdings } from "./holdings.ts";
import {
  Answers,
  type ProtocolHost,
  type ProtocolOptions,
  ResponseFaults,
  type SdsProtocol,
} from "./sds_protocol.ts";

interface Stream {
  /** Given up during this stream; the server may not know yet. */
  readonly dropped: Set<string>;
}

export class DeltaProtocol implements SdsProtocol<DeltaResponse> {
  readonly #client: SdsClient;
  readonly #send: (request: DeltaRequest) => void;
  readonly #host: ProtocolHost;
  readonly #answers: Answers;
  readonly #holdings: Holdings;
  #stream: Stream | undefined;
  #tail: Promise<void> = Promise.resolve();

  constructor(client: SdsClient, options: ProtocolOptions<DeltaRequest>) {
    const { send, host, clock, random } = options;
    this.#client = client;
    this.#send = send;
    this.#host = host;
    this.#answers = new Answers(clock, random);
    this.#holdings = new Holdings(host, clock);
  }

  get names(): ReadonlySet<string> {
    return this.#holdings.names;
  }

  get isComplete(): boolean {
    return this.#holdings.isComplete;
  }

  change(subscribe: readonly string[], unsubscribe: readonly string[]): void {
    const stream = this.#stream;
    const { added, gone } = this.#holdings.change(subscribe, unsubscribe);
    for (const name of gone) stream?.dropped.add(name);
    for (const name of added) stream?.dropped.delete(name);
    if (!stream || (gone.length === 0 && added.length === 0)) return;
    // A name given up and taken up again is asked for anew.
    this.#request({ subscribe: added, unsubscribe: gone.filter((name) => !this.names.has(name)) });
  }

  opened(): void {
    this.#stream = { dropped: new Set() };
    this.#request({
      client: this.#client,
      subscribe: [...this.names],
      initialVersions: new Map(this.#holdings.versions),
    });
  }

  closed(): void {
    this.#stream = undefined;
    this.#answers.drop();
  }

  close(): void {
    this.closed();
    this.#holdings.close();
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

  async #judge(stream: Stream, response: DeltaResponse): Promise<ResponseFaults> {
    const { resources, removed } = response;
    const faults = new ResponseFaults();
    const whole = this.#wholeFault(response);
    if (whole !== undefined) {
      faults.add(whole);
      for (const name of this.names) this.#host.rejected(name, whole);
      return faults;
    }
    const isCurrent = () => this.#stream === stream;
    await this.#holdings.take(resources, faults, {
      isCurrent,
      // Of the version that is in use.
      isHeartbeat: ({ name, version, content }) =>
        content.kind === "heartbeat" && this.#holdings.versions.get(name) === version,
      unexpected: (resource) => stream.dropped.has(resource.name) ? undefined : faultOf(resource),
    });
    for (const name of removed) {
      if (isCurrent() && this.names.has(name)) this.#holdings.remove(name);
    }
    return faults;
  }

  #wholeFault({ typeUrl, resources, removed }: DeltaResponse): string | undefined {
    if (typeUrl !== SECRET_TYPE_URL) return `the response is of type "${typeUrl.slice(0, 200)}"`;
    const [only, ...more] = this.names;
    const empty = resources.length === 0 && removed.length === 0;
    return empty && only !== undefined && more.length === 0
      ? `Missing SDS resources for ${only}`
      : undefined;
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
function faultOf({ name, content }: SdsResource): string {
  if (name !== "") return `"${name.slice(0, 256)}" was not asked for`;
  const reason = content.kind === "unreadable" ? content.reason : "it has no name";
  return `a resource cannot be used: ${reason}`;
}
