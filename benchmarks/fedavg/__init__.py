"""FedAvg, the job that the popular simulators are measured with, against a plain loop.

The CNN of level d on MNIST, 10 of 100 clients, 5 epochs, batches of 10, SGD with clipping, a test
of the global model every round, static batch norm's statistics over the training set before it.
"""
