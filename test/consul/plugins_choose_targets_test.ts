import { CONSUL } from "../kit/mesh/consul.ts";
import { chosenTargets } from "../stories/chosen_targets.ts";

chosenTargets(CONSUL);
