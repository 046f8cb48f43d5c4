/** A request that is only explained: it takes the stages up to the pool, and stops. @module */

import { type DownstreamFacts, ExchangeRecord, type RequestHead } from "../../http/mod.ts";
import type { TrustedPeer } from "../../identity/mod.ts";
import { type Generation, TOKEN_FAULTS, VERIFIED_CLAIMS } from "../../plugin/mod.ts";
import type { VerifiedClaims } from "../../policy/mod.ts";
import { judgeOfPath, judgeOfRequests, type RequestJudge } from "../caller/authorize.ts";
import { callerKey } from "../caller/session.ts";
import type { Context } from "../core/context.ts";
import { ExchangeValue } from "../service/exchange_value.ts";
import {
  type FormOptions,
  type HttpListener,
  REQUEST_STAGES,
  type StagedRequest,
  type StageRefusal,
} from "../service/stages.ts";
import { TokenCheck } from "../service/token_check.ts";
import type { RequestRoute } from "../upstream/request_pools.ts";

const UNKNOWN_CALLER: DownstreamFacts = {
  id: 0,
  remote: "",
  local: "",
  requestedServerName: "",
  tlsVersion: "",
  localUri: "",
  peer: undefined,
};

export class UnsentRequest implements StagedRequest {
  readonly listener: HttpListener;
  readonly head: RequestHead;
  readonly context: Context;
  readonly record: ExchangeRecord;
  readonly value: ExchangeValue;
  readonly caller: FormOptions["caller"];
  readonly callerKey: string;
  readonly judge: RequestJudge;
  route: RequestRoute | undefined;
  refusal: StageRefusal | undefined;
  /** Plugins that have it now. */
  generation: Generation | undefined;
  /** The intentions, or the exposed path, have judged it. */
  isJudged = false;
  #verified: Promise<RequestHead | undefined> | undefined;

  /** `peer`: `undefined`: the caller shows no certificate. */
  constructor(
    { listener, head, peer, caller }: Pick<StagedRequest, "listener" | "head" | "caller"> & {
      readonly peer: TrustedPeer | undefined;
    },
  ) {
    const { facts, exposed } = listener;
    const { context, name, direction, authorizeMode } = facts;
    const { clock } = context;
    this.listener = listener;
    this.head = head;
    this.context = context;
    this.caller = caller;
    // A caller without a certificate may have any address.
    this.callerKey = peer ? callerKey(facts, peer, "") : "";
    this.record = new ExchangeRecord(UNKNOWN_CALLER, head, {
      wallMs: clock.now(),
      monotonicMs: clock.monotonic(),
    });
    const connection = { listener: name, direction, remoteAddress: "", ownUri: "", source: null };
    this.value = new ExchangeValue(this.record, connection);
    const judge = exposed
      ? judgeOfPath(exposed)
      : judgeOfRequests({ context, peer, record: { rule: "" } }, authorizeMode);
    this.judge = (request, claims) => {
      this.isJudged = true;
      return judge(request, claims);
    };
  }

  get claims(): VerifiedClaims | undefined {
    return this.value.get(VERIFIED_CLAIMS);
  }

  /** Why tokens were not verified, by provider. */
  get tokenFaults(): ReadonlyMap<string, string> | undefined {
    return this.value.get(TOKEN_FAULTS);
  }

  /** Runs the stages up to the plugins or the pool. `onForm`: the request is in the form that is judged. */
  async run(onForm: (head: RequestHead) => void): Promise<void> {
    for (const { name, run } of REQUEST_STAGES) {
      if (name === "pool") return;
      const result = run(this);
      if (name === "form") onForm(this.head);
      if (result === undefined) continue;
      if (result !== "handed_over") return void (this.refusal = result);
      if (this.generation) return;
      const known = await this.#verified;
      if (!known) {
        const reason = "its tokens could not be verified";
        return void (this.refusal = { code: "plugin_failed", reason });
      }
      this.head.path = known.path;
      this.head.fields = known.fields;
    }
  }

  verifyTokens(generation: Generation): void {
    const { context: { deadlines }, value: exchange } = this;
    this.#verified = new Promise((onKnown) =>
      new TokenCheck(generation, exchange, { deadlines, onKnown }).start(this.head)
    );
  }

  runPlugins(generation: Generation): void {
    this.generation = generation;
  }

  sendTo(): void {
    throw new TypeError("an explained request takes no place");
  }
}
