/**
 * Asks Envoy, configured by a real Consul, the questions of `test/kit/mesh/l7_intentions.ts`, and writes its
 * answers down for the tests that have neither: `deno run -A scripts/record_l7_intentions.ts`.
 *
 * @module
 */

import { writeFile } from "node:fs/promises";
import { startConsul } from "../test/kit/mesh/consul.ts";
import { QuestionSender, startPathApp } from "../test/kit/mesh/l7_requests.ts";
import {
  answerText,
  DESTINATION,
  ENTRIES,
  FIRST,
  QUESTIONS,
  RECORDED,
  shown,
} from "../test/kit/mesh/l7_intentions.ts";
import { eventually } from "../test/kit/process/process.ts";
import { envoySidecar } from "../test/kit/mesh/sidecars.ts";

async function answersBy(policy: "allow" | "deny"): Promise<Readonly<Record<string, string>>> {
  await using consul = await startConsul({ defaultIntentionPolicy: policy });
  await using app = await startPathApp(consul.host);
  for (const entry of ENTRIES) await consul.configEntry(entry);
  const place = await consul.place();
  const id = await consul.register({ name: DESTINATION, port: app.port, sidecarPort: place.port });
  await using _envoy = await envoySidecar(consul, id, {});
  const sender = new QuestionSender(consul);
  await eventually("Envoy answers", async () => (await sender.send(place, FIRST)).status === 200);
  const answers = await sender.sendAll(place, QUESTIONS);
  return Object.fromEntries(
    QUESTIONS.map((
      question,
      index,
    ) => [shown(question), answerText(answers[index] ?? { status: 0 })]),
  );
}

const recorded = { deny: await answersBy("deny"), allow: await answersBy("allow") };
await writeFile(RECORDED, `${JSON.stringify(recorded, null, 2)}\n`);
