import { CONSUL } from "../kit/mesh/consul.ts";
import { intentionFlip } from "../stories/intention_flip.ts";

intentionFlip(CONSUL);
