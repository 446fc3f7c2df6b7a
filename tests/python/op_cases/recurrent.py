"""LSTM, GRU and plain recurrent layers."""
import torch


def cases(g):
    def layer(op, gates, layers, directions, biases, batch_first, projection=0, dtype=torch.float32,
              width=3, hidden=4, batch=2, steps=3, **tolerance):
        out = projection or hidden
        params = []
        for i in range(layers):
            for _ in range(directions):
                params += [g.randn(gates * hidden, width if i == 0 else out * directions, dtype=dtype, scale=0.5),
                           g.randn(gates * hidden, out, dtype=dtype, scale=0.5)]
                if biases:
                    params += [g.randn(gates * hidden, dtype=dtype), g.randn(gates * hidden, dtype=dtype)]
                if projection:
                    params += [g.randn(projection, hidden, dtype=dtype)]
        x = g.randn(*((batch, steps) if batch_first else (steps, batch)), width, dtype=dtype)
        h = g.randn(layers * directions, batch, out, dtype=dtype)
        state = [h, g.randn(layers * directions, batch, hidden, dtype=dtype)] if gates == 4 else h
        g.case(op, x, state, params, biases, layers, 0.0, False, directions == 2, batch_first, **tolerance)

    for op, gates in (("aten.lstm.input", 4), ("aten.gru.input", 3), ("aten.rnn_tanh.input", 1),
                      ("aten.rnn_relu.input", 1)):
        layer(op, gates, 1, 1, True, False)
        layer(op, gates, 2, 2, True, True, hidden=2)
        layer(op, gates, 1, 2, False, False, batch=1)
        layer(op, gates, 1, 1, True, True, batch=7, hidden=2, steps=2)
        layer(op, gates, 1, 1, True, False, dtype=torch.float64)
    layer("aten.lstm.input", 4, 2, 2, True, False, projection=3)
    layer("aten.lstm.input", 4, 1, 1, True, False, dtype=torch.bfloat16, rtol=0.05, atol=0.05)
    x, h, w, u = g.randn(2, 1, 3), g.randn(1, 1, 4), g.randn(12, 3), g.randn(12, 4)
    g.error("aten.gru.input", x, h, [w, u, u], False, 1, 0.0, False, False, False)
    g.error("aten.gru.input", x, h[..., :3], [w, u], False, 1, 0.0, False, False, False)
