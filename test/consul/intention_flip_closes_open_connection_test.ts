import { CONSUL } from "../kit/consul.ts";
import { intentionFlip } from "../stories/intention_flip.ts";

intentionFlip(CONSUL);
