"""HeteroFL as such code is usually written: what the suite's ratios compare against.

One process with all of torch's threads; images through PIL and torchvision one by one, in a
DataLoader; a new model and optimiser for each client; sub-models cut and added up by index lists;
all words' logits, masked, for every text client; static batch norm's statistics over the whole
training set in batches of ten; tests in one small loader per client and once for all, each round.

Written plainly, without shortcuts and without needless waste. A test holds it to the simulator:
fed the same model, cohort, batches and draws, both give the same model.
"""
