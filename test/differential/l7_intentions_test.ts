/**
 * One service, intentions of every kind, one instance behind Envoy and one behind Postern on the same
 * Consul: some hundred requests are answered alike, the application gets the same, and `explain`
 * predicts the outcome of each.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { startConsul } from "../kit/mesh/consul.ts";
import { asWritten, QuestionSender, startPathApp, wentAs } from "../kit/mesh/l7_requests.ts";
import {
  type Answer,
  answerText,
  DESTINATION,
  ENTRIES,
  FIRST,
  QUESTIONS,
  recordedAnswers,
  shown,
} from "../kit/mesh/l7_intentions.ts";
import { eventually } from "../kit/process/process.ts";
import { envoySidecar } from "../kit/mesh/sidecars.ts";
import { Predictions } from "./explained.ts";

/**
 * A request that Envoy has no route for, and one without a method over HTTP/1.1, an application may
 * answer: docs/l7-intentions.md.
 */
function isOtherwise(question: string, protocol: string): boolean {
  return question === "paths: OPTIONS *" ||
    protocol === "http" && question === "paths: post /post/x";
}

/** The mesh entry that selects the other way to look at paths. */
const SLASHES = {
  Kind: "mesh",
  HTTP: {
    Incoming: {
      RequestNormalization: {
        MergeSlashes: true,
        PathWithEscapedSlashesAction: "UNESCAPE_AND_FORWARD",
      },
    },
  },
};

for (
  const [policy, title, protocol, entries] of [
    ["deny", "the default is deny", "http", ENTRIES],
    ["allow", "the default is allow", "http", ENTRIES],
    ["deny", "slashes are merged and unescaped", "http", [SLASHES, ...ENTRIES]],
    ["deny", "they come by HTTP/2", "http2", ENTRIES],
    ["allow", "they come by gRPC", "grpc", ENTRIES],
  ] as const
) {
  test(`requests are answered as by Envoy where ${title}`, async () => {
    await using consul = await startConsul({ defaultIntentionPolicy: policy });
    await using app = await startPathApp(consul.host, protocol);
    for (const entry of entries) {
      const isSpoken = entry["Kind"] === "service-defaults";
      await consul.configEntry({ ...entry, ...(isSpoken ? { Protocol: protocol } : {}) });
    }
    const start = async (id: string) => {
      const place = await consul.place();
      const service = { name: DESTINATION, id, port: app.port, sidecarPort: place.port };
      return { place, id: await consul.register(service) };
    };
    const [theirs, ours] = [await start("db-1"), await start("db-2")];
    await using _envoy = await envoySidecar(consul, theirs.id, {});
    await using sidecar = await consul.sidecar(ours.id);
    const sender = new QuestionSender(consul, protocol);
    const answersAt = async (place: typeof ours.place) => {
      await eventually(
        "the first request is answered",
        async () => (await sender.send(place, FIRST)).seen === FIRST.path,
      );
      return await sender.sendAll(place, QUESTIONS);
    };
    const inWords = (answers: readonly Answer[]) =>
      QUESTIONS.map((question, index) =>
        `${shown(question)}: ${answerText(answers[index] ?? { status: 0 })}`
      );
    const envoy = inWords(await answersAt(theirs.place));
    if (entries === ENTRIES && protocol === "http") await assertRecorded(policy, envoy);
    assert.equal(envoy.includes("paths: GET //exact: 200 /exact"), entries !== ENTRIES);
    const answers = await answersAt(ours.place);
    const postern = inWords(answers);
    // Both directions: an expected difference that does not occur has no place in the list.
    const differences = QUESTIONS.flatMap((question, index) =>
      (postern[index] !== envoy[index]) === isOtherwise(shown(question), protocol)
        ? []
        : [`${postern[index]}, by Envoy ${envoy[index]}`]
    );
    assert.deepEqual(differences, []);
    const unexplained: string[] = [];
    for (const [index, question] of QUESTIONS.entries()) {
      const { source, fields } = question;
      // HTTP/2 has no such field, and explain takes requests as HTTP/1.1 has them.
      if (protocol !== "http" && fields.some((field) => /^connection:/i.test(field))) continue;
      const callee = { sidecar, query: { source, connect: "no" } };
      const predictions = await Predictions.of({ caller: callee }, asWritten(question, protocol));
      const why = predictions.whyNot(wentAs(question, answers[index], protocol));
      if (why !== undefined) unexplained.push(`${shown(question)}: ${why}`);
    }
    assert.deepEqual(unexplained, []);
  });
}

/** The recorded answers that other tests use are still Envoy's. */
async function assertRecorded(policy: "allow" | "deny", answers: readonly string[]): Promise<void> {
  const recorded = Object.entries((await recordedAnswers())[policy])
    .map(([question, answer]) => `${question}: ${answer}`);
  assert.deepEqual(answers, recorded, "record them anew: scripts/record_l7_intentions.ts");
}
