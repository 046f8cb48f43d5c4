/**
 * The answers of the application of `planned_app.ts`: by the path of a request, or by a field that names
 * one for each try.
 *
 * @module
 */

/** The answer, over either protocol. */
export interface Plan {
  /** 0: no response. */
  readonly status: number;
  readonly fields: readonly string[];
  /** Several: of a length that is not announced. */
  readonly body: readonly string[];
  readonly trailers?: readonly string[];
  /** It breaks off after its body. */
  readonly breaks?: true;
  /** Early hints are sent before it. */
  readonly hints?: true;
  /** The status of HTTP/2's reset. */
  readonly resetCode?: number;
  /** Between its first piece and the second, or before it where there is one piece. */
  readonly waitMs?: number;
}

/**
 * A field with an answer for each try at a request, the last one for all that follow: a status, with
 * fields of its own as in `429;x-envoy-ratelimited=true`; `drop`, `refuse`, `silent`, `soon`, `late`
 * (after {@link LATE_MS}), `pause` (the same between two pieces), `grpc-14`, or the path of a plan.
 */
export const PLAN = "x-plan";

export const LATE_MS = 1_200;
const SOON_MS = 400;

const GRPC = "content-type: application/grpc";
/** `hi` as a message of gRPC. */
export const GRPC_MESSAGE = "\0\0\0\0\x02hi";
const PLAIN: Plan = {
  status: 200,
  fields: ["content-type: text/plain", "x-app: one", "x-app: two"],
  body: ["hello"],
};
const NONE: Plan = { status: 0, fields: [], body: [], breaks: true };

const PLANS: Readonly<Record<string, Plan>> = {
  "/own": {
    ...PLAIN,
    fields: [
      "server: own/1",
      "date: Mon, 01 Jan 2024 00:00:00 GMT",
      "x-envoy-upstream-service-time: 9",
      "via: own",
      "x-request-id: own",
      "x-envoy-own: 1",
      "x-envoy-overloaded: true",
      "set-cookie: a=1",
      "set-cookie: b=2",
    ],
  },
  "/pieces": { ...PLAIN, body: ["one,", "two,", "three"] },
  "/trailers": { ...PLAIN, body: ["one,", "two"], trailers: ["x-sum: 1", "x-end: 2"] },
  "/hints": { ...PLAIN, hints: true },
  "/204": { ...PLAIN, status: 204, body: [] },
  "/304": { ...PLAIN, status: 304, body: [], fields: ['etag: "1"'] },
  "/404": { ...PLAIN, status: 404 },
  "/500": { ...PLAIN, status: 500 },
  "/breaks": { ...PLAIN, body: ["some"], breaks: true },
  "/drops": NONE,
  "/unary": { status: 200, fields: [GRPC], body: [GRPC_MESSAGE], trailers: ["grpc-status: 0"] },
  "/stream": {
    status: 200,
    fields: [GRPC, "x-app: one"],
    body: [GRPC_MESSAGE, GRPC_MESSAGE],
    trailers: ["grpc-status: 0", "grpc-message: well", "x-end: 1"],
  },
  "/unavailable": { status: 200, fields: [GRPC, "grpc-status: 14"], body: [] },
  "/status": {
    status: 200,
    fields: [GRPC, "grpc-status: 5", "grpc-message: no%20such"],
    body: [],
  },
};

const TRIES: Readonly<Record<string, Plan | undefined>> = {
  silent: undefined,
  drop: NONE,
  refuse: { ...NONE, resetCode: 7 },
  soon: { ...PLAIN, waitMs: SOON_MS },
  late: { ...PLAIN, waitMs: LATE_MS },
  pause: { ...PLAIN, body: ["one,", "two"], waitMs: LATE_MS },
};

/** The plan for the try of that number, from 0. */
export function planOf(
  path: string,
  { body, plan, attempt }: {
    readonly body: string;
    readonly plan: string | undefined;
    readonly attempt: number;
  },
): Plan | undefined {
  if (plan !== undefined) {
    const tries = plan.split(" ");
    return plannedTry(tries[attempt] ?? tries.at(-1) ?? "");
  }
  const [name = ""] = path.split("?");
  if (name === "/slow") return undefined;
  return PLANS[name] ?? (name === "/echo" ? { ...PLAIN, body: [body] } : PLAIN);
}

function plannedTry(word: string): Plan | undefined {
  if (Object.hasOwn(TRIES, word)) return TRIES[word];
  const byPath = PLANS[word];
  if (byPath) return byPath;
  const [first = "", ...fields] = word.split(";");
  const grpc = /^grpc-(\d+)$/.exec(first);
  if (grpc) return { status: 200, fields: [GRPC, `grpc-status: ${grpc[1]}`], body: [] };
  const own = fields.map((field) => field.replace("=", ": "));
  const status = Number(first);
  if (!(status >= 200 && status < 600)) throw new Error(`No plan is called "${word}"`);
  return { ...PLAIN, status, fields: [...PLAIN.fields, ...own] };
}
